"""What the seam calls instead of torch's own loop: the driver that fits the run."""

from resilient.agent.driver import Driver
from resilient.agent.driver_nodes import NodesDriver
from resilient.agent.functions import run_functions
from resilient.agent.session import Session
from resilient.agent.torch_seam import RunResult, SeamAgent


def drive(session: Session, agent: SeamAgent) -> RunResult:
    """Run a worker group from its first attempt to its last."""
    if not agent.is_command:
        return run_functions(session, agent)
    if agent.most_nodes > 1:
        return NodesDriver(session, agent).run()
    return Driver(session, agent).run()
