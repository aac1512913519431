"""The rule for a full queue: slow is waited for, stuck is not."""

from resilient.act.scribe_flow import DROP, ITEM, TAKE, WAIT, Flow, Lane


def fill(lane: Lane, flow: Flow, size: int) -> None:
    lane.took(flow, b"x" * (size - ITEM))


def test_slow_writer_is_waited_for() -> None:
    lane, flow = Lane(share=1000, total=9000, stall_s=1.0), Flow()
    assert lane.admit(flow, 0.0) == TAKE
    fill(lane, flow, 1000)
    for now in range(10, 100):
        lane.progress_at = now - 0.5
        assert lane.admit(flow, now) == WAIT
    lane.wrote(flow, b"x" * (1000 - ITEM))
    assert lane.admit(flow, 200.0) == TAKE


def test_stuck_writer_delays_once_then_drops_until_half_is_free() -> None:
    lane, flow = Lane(share=1000, total=9000, stall_s=1.0), Flow()
    for _ in range(4):
        fill(lane, flow, 250)
    lane.progress_at = 0.0
    assert lane.admit(flow, 10.0) == WAIT
    assert lane.admit(flow, 10.9) == WAIT
    assert lane.admit(flow, 11.1) == DROP
    assert lane.admit(flow, 50.0) == DROP
    lane.wrote(flow, b"x" * (250 - ITEM))
    assert lane.admit(flow, 50.0) == DROP
    lane.wrote(flow, b"x" * (250 - ITEM))
    assert lane.admit(flow, 50.0) == TAKE


def test_allowance_bounds_all_waiting() -> None:
    lane, flow = Lane(share=1000, total=9000, stall_s=9.0, allowance_s=1.0), Flow()
    flow.opened = 0.0
    fill(lane, flow, 1000)
    lane.progress_at = 5.0
    assert lane.admit(flow, 5.0) == WAIT
    assert lane.admit(flow, 5.9) == WAIT
    assert lane.admit(flow, 6.1) == DROP


def test_nobody_waits_for_a_writer_that_has_not_started() -> None:
    lane, flow = Lane(share=1000, total=9000, stall_s=9.0), Flow()
    lane.running = False
    fill(lane, flow, 1000)
    assert lane.admit(flow, 0.0) == DROP


def test_all_flows_together_are_bounded() -> None:
    lane = Lane(share=1000, total=3000, stall_s=0.0)
    flows = [Flow() for _ in range(64)]
    taken = 0
    for flow in flows:
        if lane.admit(flow, 1e9) == TAKE:
            fill(lane, flow, 900)
            taken += 1
    assert taken == 4 and lane.queued == 3600
