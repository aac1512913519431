"""The laboratory: hosts, a switch with two networks between them, and what can go wrong."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from netlab.host import NAMESPACES, NETWORKS, Host

TOOLS = ("ip", "nft", "unshare", "nsenter")


class Lab:
    """So many hosts on two networks; up when it is made, gone when it is closed.

    Faults name a host by its number, and networks (none: both). They take effect before they
    return, and return the monotonic time just before.
    """

    def __init__(self, folder: Path, hosts: int = 2) -> None:
        folder = folder / "lab"
        folder.mkdir(parents=True)
        names = [f"h{number}" for number in range(hosts)]
        table = folder / "hosts"
        # The control network's names come first: a host's own name means its address there.
        table.write_text(
            "127.0.0.1 localhost\n"
            + "".join(f"10.77.2.{n + 1} {name} {name}-eth\n" for n, name in enumerate(names))
            + "".join(f"10.77.1.{n + 1} {name}-ib\n" for n, name in enumerate(names))
        )
        owner = os.pidfd_open(os.getpid())
        try:
            self._all = [
                Host(number, name, folder / name, table, owner)
                for number, name in enumerate([*names, "switch"])
            ]
        finally:
            os.close(owner)
        *self.hosts, self._switch = self._all
        try:
            self._wire()
        except BaseException:
            self.close()
            raise

    def _wire(self) -> None:
        for host in self._all:
            host.await_up()
        batch = ["link set lo up"]
        for network in NETWORKS:
            batch += [f"link add br{network} type bridge", f"link set br{network} up"]
            for host in self.hosts:
                port = f"{network}{host.number}"
                peer = f"peer name {network}0 netns {host.init}"
                batch.append(f"link add {port} type veth {peer}")
                batch.append(f"link set {port} master br{network} up")
        self._switch.configure("ip", "-batch", "-", text="\n".join(batch))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._connect, self.hosts))

    @staticmethod
    def _connect(host: Host) -> None:
        batch = ["link set lo up"]
        for network in NETWORKS:
            batch.append(f"link set {network}0 addrgenmode none")  # IPv4 only
            batch.append(f"addr add {host.address(network)}/24 dev {network}0")
            batch.append(f"link set {network}0 up")
        host.configure("ip", "-batch", "-", text="\n".join(batch))

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all hosts with everything that runs on them."""
        with ThreadPoolExecutor(len(self._all)) as pool:
            list(pool.map(Host.close, self._all))

    # Faults

    def cut(self, host: int, *networks: str) -> float:
        """Take the switch's port down: the host loses its carrier."""
        return self._ports(host, networks, "down")

    def drop(self, host: int, *networks: str) -> float:
        """Throw away every frame to and from the host, in the switch: nobody is told."""
        tables = []
        for port in self._named(host, networks):
            rules = f'iifname "{port}" drop; oifname "{port}" drop'
            chain = f"type filter hook forward priority 0; {rules}"
            tables.append(f"table bridge {port} {{\nchain both {{ {chain}; }}\n}}")
        at = time.monotonic()
        self._nft("\n".join(tables))  # all or nothing
        return at

    def heal(self, host: int, *networks: str) -> float:
        """Undo `cut` and `drop`."""
        for port in self._named(host, networks):
            self._nft(f"add table bridge {port}\ndelete table bridge {port}")  # it may not exist
        return self._ports(host, networks, "up")

    def freeze(self, host: int) -> float:
        """Stop every process of a host; its kernel still answers the network."""
        at = time.monotonic()
        self.hosts[host].signal(signal.SIGSTOP)
        return at

    def thaw(self, host: int) -> float:
        """Let a frozen host go on."""
        at = time.monotonic()
        self.hosts[host].signal(signal.SIGCONT)
        return at

    def kill(self, host: int) -> float:
        """Kill every process of a host; its kernel closes their connections.

        To switch a host off, so that nobody is told: `drop`, then `kill`.
        """
        at = time.monotonic()
        self.hosts[host].signal(signal.SIGKILL)
        return at

    @staticmethod
    def _named(host: int, networks: tuple[str, ...]) -> list[str]:
        return [f"{network}{host}" for network in networks or NETWORKS]

    def _ports(self, host: int, networks: tuple[str, ...], state: str) -> float:
        batch = [f"link set {port} {state}" for port in self._named(host, networks)]
        at = time.monotonic()
        self._switch.configure("ip", "-batch", "-", text="\n".join(batch))
        return at

    def _nft(self, text: str) -> None:
        self._switch.configure("nft", "-f", "-", text=text)


def unavailable() -> str:
    """Why there can be no laboratory here, "" where there can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(missing)}"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command = ["unshare", *NAMESPACES, "--fork", "nft", "add table bridge probe"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return done.stderr.strip() if done.returncode else ""
    return "unshare does not run"
