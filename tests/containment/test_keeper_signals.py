"""The keeper passes each signal on once, and changes nothing about signals for those below."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from containment.surroundings import wait_until
from containment.terminal import Terminal


@pytest.fixture
def terminal(job):
    opened = Terminal(TMPDIR=job.folder)
    yield opened
    job.stop()
    opened.close()


def type_command(terminal, job, *words):
    terminal.type("cd /; " + " ".join(job.command(*words)) + "; echo code=$?\n")


FORWARDED = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH",
             "SIGALRM"]  # fmt: skip


def test_each_signal_once(job):
    keeper = job.start(job.command("log"))
    job.ready()
    for count, name in enumerate(FORWARDED, 1):
        keeper.send_signal(getattr(signal, name))
        wait_until(lambda count=count: len(job.signals()) == count, name)
    time.sleep(0.15)  # longer than what passes for an echo
    keeper.send_signal(signal.SIGINT)
    wait_until(lambda: len(job.signals()) > len(FORWARDED), "the second SIGINT")
    job.stop()
    assert keeper.wait(30) == 0
    assert job.signals() == [*FORWARDED, "SIGINT"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_the_whole_group_arrives_once(job, name):
    keeper = job.start(job.command("log"), start_new_session=True)
    agent = job.ready()
    assert os.getpgid(agent) == agent
    os.killpg(keeper.pid, getattr(signal, name))
    wait_until(job.signals, name)
    time.sleep(0.3)
    job.stop()
    assert keeper.wait(30) == 0
    assert job.signals() == [name]


def test_the_same_wish_a_moment_later_is_an_echo(job):
    keeper = job.start(job.command("log"))
    job.ready()
    for attempt in range(1, 50):  # until the two were close together, which a busy machine prevents
        sent = time.monotonic()
        keeper.send_signal(signal.SIGTERM)
        wait_until(lambda attempt=attempt: len(job.signals()) >= attempt, "SIGTERM")
        keeper.send_signal(signal.SIGTERM)
        close = time.monotonic() - sent < 0.05
        time.sleep(0.2)
        if close:
            assert job.signals() == ["SIGTERM"] * attempt
            break
        Path(job.folder, "signals").write_text("SIGTERM\n" * attempt)
    job.stop()
    assert keeper.wait(30) == 0


def test_the_timeout_command_is_one_wish_although_it_signals_twice(job):
    keeper = job.start(["timeout", "-s", "INT", "2", *job.command("log")])
    job.ready()
    wait_until(job.signals, "SIGINT")
    time.sleep(0.3)
    job.stop()
    assert keeper.wait(30) == 124
    assert sorted(job.signals()) in (["SIGCONT", "SIGINT"], ["SIGINT"])


def test_a_stopped_keeper_passes_on_what_came_meanwhile(job):
    keeper = job.start(job.command("log"))
    job.ready()
    keeper.send_signal(signal.SIGSTOP)
    keeper.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert job.signals() == []
    keeper.send_signal(signal.SIGCONT)
    wait_until(lambda: len(job.signals()) == 2, "both signals")
    job.stop()
    assert keeper.wait(30) == 0


def test_ctrl_c_in_a_terminal_arrives_once(job, terminal):
    type_command(terminal, job, "log")
    job.ready()
    terminal.type("\x03")
    wait_until(job.signals, "SIGINT")
    time.sleep(0.3)
    job.stop()
    terminal.expect("code=0")
    assert job.signals() == ["SIGINT"]


def test_the_shell_sees_that_ctrl_c_ended_it(job, terminal):
    type_command(terminal, job, "nest", "plain")
    job.ready()
    terminal.type("\x03")
    terminal.expect("KeyboardInterrupt")
    terminal.expect("ready> ")
    terminal.type("echo code=$?\n")
    terminal.expect("code=130")


def test_ctrl_z_stops_the_keeper_and_the_job_goes_on(job, terminal):
    type_command(terminal, job, "log")
    job.ready()
    wait_until(lambda: job.exists("ticks"), "the first tick")
    terminal.type("\x1a")
    terminal.expect("Stopped")
    before = int(job.text("ticks"))
    wait_until(lambda: int(job.text("ticks")) > before + 5, "the job to go on")
    terminal.expect("ready> ")
    terminal.type("fg\n")
    wait_until(lambda: job.signals() == ["SIGCONT"], "SIGCONT")
    terminal.type("\x03")
    wait_until(lambda: "SIGINT" in job.signals(), "SIGINT")
    job.stop()
    wait_until(lambda: not job.private_dirs(), "the end")
    assert job.signals() == ["SIGCONT", "SIGINT"]


def test_a_new_window_size_arrives(job, terminal):
    type_command(terminal, job, "log")
    job.ready()
    terminal.resize(50, 132)
    wait_until(lambda: job.signals() == ["SIGWINCH"], "SIGWINCH")


def test_a_closed_terminal_is_one_hangup(job, terminal):
    type_command(terminal, job, "log")
    job.ready()
    terminal.hang_up()
    wait_until(lambda: "SIGHUP" in job.signals(), "SIGHUP")
    time.sleep(0.3)
    assert job.signals().count("SIGHUP") == 1


def test_a_child_of_the_agent_may_read_the_terminal(job, terminal):
    type_command(terminal, job, "read")
    job.ready()
    terminal.type("typed by hand\n")
    terminal.expect("<typed by hand>")
    terminal.expect("code=0")


def test_a_child_of_the_agent_may_write_to_a_terminal_that_stops_the_background(job, terminal):
    terminal.type("stty tostop; echo tost''op\n")
    terminal.expect("tostop\r\n")
    type_command(terminal, job, "read")
    job.ready()
    terminal.type("still heard\n")
    terminal.expect("<still heard>")
    terminal.expect("code=0")


def unusual():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGALRM})


@pytest.mark.parametrize("before", [None, unusual])
def test_masks_and_dispositions_below_are_those_without_a_keeper(job, before):
    def lines(mode):
        done = subprocess.run(
            job.command(mode),
            env=job.environment(),
            stdout=subprocess.PIPE,
            preexec_fn=before,
            text=True,
            check=True,
        )
        return [line for line in done.stdout.splitlines() if line.startswith("Sig")]

    with_keeper, without = lines("status"), lines("bare")
    assert len(without) > 8
    assert [one for one in with_keeper if "SigQ" not in one] == [
        one for one in without if "SigQ" not in one
    ]
