"""The combinations."""

from differential.case import C10D, MODULE, SHELL, STANDALONE, STATIC, Case

GROUP = "torch group store"  # words: compare what torch sees, use the group and its store
LOGS = ("--log-dir", "{d}/log")
PYTHON = {
    "PYTHONHASHSEED": "0",
    "PYTHONOPTIMIZE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "latin-1:replace",
    "PYTHONSAFEPATH": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONPYCACHEPREFIX": "{d}/pycache",
}
PET = {
    "PET_NPROC_PER_NODE": "2",
    "PET_STANDALONE": "1",
    "PET_MAX_RESTARTS": "1",
    "PET_ROLE": "learner",
    "PET_TEE": "3",
    "PET_LOG_DIR": "{d}/log",
}
UNDERSCORES = (
    "--nproc_per_node=2",
    "--rdzv_backend=c10d",
    "--rdzv_endpoint=localhost:{port}",
    "--rdzv_id=with_underscores",
    "--rdzv_conf=timeout=60",
    "--monitor_interval=0.05",
    "--start_method=fork",
    "--shutdown_timeout=5",
    "--max_restarts=1",
)
HARDENED = ("sh", "-c", 'umask 027; ulimit -n 700; trap "" HUP; exec nice -n 3 "$@"', "sh")

RENDEZVOUS = (
    Case("standalone", nproc=2, do=GROUP, torch_both=True),
    Case("standalone by name", ("--nnodes=1:1", "--standalone"), again=False),
    Case("static with a port", STATIC, nproc=2, do=GROUP, torch_both=True),
    Case(
        "static in full",
        ("--nnodes", "1", "--node-rank", "0", "--master-addr", "localhost", *STATIC),
    ),
    Case("c10d with endpoint and id", (*C10D, "--rdzv-id", "job7"), 2, do=GROUP, torch_both=True),
    Case("c10d with a random port", (*C10D[:-1], "localhost:0", "--local-addr", "127.0.0.1")),
    Case(
        "c10d with options",
        (*C10D, "--rdzv-conf", "is_host=1,timeout=90,join_timeout=80"),
        again=False,
    ),
    Case(
        "store not shared",
        env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        nproc=2,
        do=GROUP,
        torch_both=True,
    ),
)
SPELLING = (
    Case("underscores", UNDERSCORES, nproc=2),
    Case("PET variables", (), env=PET, nproc=2),
    Case("monitor interval and timeouts", (*STANDALONE, "--monitor-interval", "0.02"), again=False),
    Case("role and node range", (*STANDALONE, "--role", "trainer", "--nnodes", "1:1"), nproc=2),
    Case("signals to handle", (*STANDALONE, "--signals-to-handle", "SIGTERM,SIGUSR1,SIGUSR2")),
    Case(
        "virtual local rank",
        (*STANDALONE, "--virtual-local-rank"),
        env={"CUDA_VISIBLE_DEVICES": "3,5"},
        nproc=2,
    ),
)
PROGRAMS = (
    Case("module", (*STANDALONE, "--role", "m"), program=MODULE, env={"PYTHONPATH": "{p}"}),
    Case("module, long flag", program=("--module", "probes.probe"), env={"PYTHONPATH": "{p}:/x"}),
    Case("shell program", program=SHELL, nproc=2, warm=False),
    Case("shell program, static", STATIC, program=SHELL, warm=False),
    Case("python as a program", program=("--no-python", "{python}", "{p}/probe.py"), warm=False),
    Case("run path", program=("--run-path", "{p}/probe.py"), warm=False),
    Case("directory", program=("{p}/app",)),
    Case("space in the name", program=("{p}/with space/pr öbe.py",)),
    Case("symbolic link", program=("{p}/linked.py",)),
    Case("relative path", program=("../../{p.name}/probe.py",)),
)
ENVIRONMENT = (
    Case("another python", env={"PYTHON_EXEC": "{p}/developer"}),
    Case("python that adds a variable", env={"PYTHON_EXEC": "{p}/decorated"}, nproc=2, warm=None),
    Case("isolated python", env={"PYTHON_EXEC": "{p}/isolated"}, warm=False, do="python"),
    Case("warnings are errors", env={"PYTHONWARNINGS": "error"}),
    Case("own sitecustomize", env={"PYTHONPATH": "{p}/site:/nowhere:"}, do="python"),
    Case("PYTHON variables", env=PYTHON),
    Case("developer mode", env={"PYTHONDEVMODE": "1", "PYTHONUTF8": "1"}),
    Case("threads named", env={"OMP_NUM_THREADS": "2"}, nproc=2, do="torch", torch_both=True),
    Case("threads not named", env={"OMP_NUM_THREADS": "(unset)"}, nproc=2),
    Case("nice, umask, limits, nohup", under=HARDENED),
)
OUTPUT = (
    Case("redirect all", (*STANDALONE, "-r", "3", *LOGS), do="talk"),
    Case("redirect by rank", (*STANDALONE, "-r", "0:1,1:2", *LOGS), nproc=2),
    Case("tee all", (*STANDALONE, "-t", "3", *LOGS)),
    Case("tee by rank", (*STANDALONE, "--tee", "0:1,1:2", *LOGS), nproc=2),
    Case("redirect and tee", (*STANDALONE, "--redirects", "1", "--tee", "2", *LOGS), nproc=2),
    Case("log directory only", (*STANDALONE, *LOGS), nproc=2),
    Case("rank filter", (*STANDALONE, "--local-ranks-filter", "1", *LOGS), nproc=2),
    Case(
        "rank filter and tee",
        (*STANDALONE, "--local_ranks_filter=0", "-t", "3", *LOGS),
        2,
        again=False,
    ),
    Case("role as prefix", (*STANDALONE, "--role", "actor", "-t", "3", *LOGS), 2, again=False),
    Case(
        "prefix template",
        (*STANDALONE, "-t", "3", *LOGS),
        env={
            "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${{role_name}} ${{rank}}/${{local_rank}}] "
        },
        nproc=2,
    ),
    Case(
        "duplicate filters",
        (*STANDALONE, "--duplicate-stdout-filters", "apple,b,,c", "-r", "3", *LOGS),
        nproc=2,
    ),
)
TERMINALS = (
    Case("terminal", terminal="pty", do="talk"),
    Case("terminal, two ranks", terminal="pty", nproc=2),
    Case("terminal, output to a pipe", terminal="pty-err", do="talk"),
    Case("terminal, errors to a pipe", terminal="pty-out", do="talk"),
    Case("terminal and tee", (*STANDALONE, "-t", "3", *LOGS), terminal="pty-out", again=False),
    Case("two pipes", do="talk stdin", stdin=b"some\ninput", again=False),
    Case("one pipe for both", terminal="merged", do="talk"),
    Case("one file for both", terminal="file", do="talk"),
    Case("no standard input", terminal="closed", nproc=2),
)
CASES = RENDEZVOUS + SPELLING + PROGRAMS + ENVIRONMENT + OUTPUT + TERMINALS
