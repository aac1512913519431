"""What all tests share: markers that say why a test cannot run here, and a clean environment."""

import os
import shutil
import signal

import pytest

LAUNCHER_VARIABLES = ("RESILIENT_", "TORCHELASTIC_", "PET_")


def pytest_configure(config: pytest.Config) -> None:
    """No setting of the person who runs the tests may change their result."""
    for name in [n for n in os.environ if n.startswith(LAUNCHER_VARIABLES)]:
        del os.environ[name]
    # Stores that tests hold themselves ask a name server too, and wait for a lost answer.
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a shell's background command
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")
    if item.get_closest_marker("gpu") and shutil.which("nvidia-smi") is None:
        pytest.skip("needs a GPU")
