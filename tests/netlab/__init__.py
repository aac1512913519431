"""A laboratory of hosts and networks on one machine, made of the kernel's namespaces.

    hosts   h0   h1   h2 …     each: processes, hostname, interfaces, /dev/shm and TMPDIR of its own
            │ │  │ │  │ │
    ib   ───┴─│──┴─│──┴─│──    10.77.1.x, interface ib0: data
    eth  ─────┴────┴────┴──    10.77.2.x, interface eth0: control

    with Lab(tmp_path, hosts=2) as lab:
        lab.hosts[0].run("ping", "-c1", lab.hosts[1].address("ib"))
        lab.drop(1, "ib")                      # or cut, freeze, kill; then heal, thaw

    with Nodes(lab, tmp_path, "note('hello', host=HOST)", nproc=2) as job:   # starts nothing yet
        job.start()                            # resilient-run on every host
        job.noted("hello", 4)
        assert [one.code for one in job.end()] == [0, 0]

No namespace has a name outside, and each ends with the processes in it, so nothing is left
behind, however the test process ends. It needs root, iproute2, nftables and util-linux.
"""
