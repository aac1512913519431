"""A node's report has to travel: what is too long for that stays on its node."""

import msgspec

from resilient.model.membership import NodeReport

LIMIT = 12 << 10  # bytes of JSON; readers refuse more than 16 KiB
LONG_MESSAGE, FEW_ENDS = 200, 16


def fitting(report: NodeReport) -> NodeReport:
    """The same report, short enough: first without what workers printed, then with fewer ends."""
    for shorten in (_without_tails, _with_short_errors, _with_few_ends):
        if len(msgspec.json.encode(report)) <= LIMIT or report.evidence is None:
            break
        report = shorten(report)
    return report


def _changed(report: NodeReport, **changes: object) -> NodeReport:
    assert report.evidence is not None
    evidence = msgspec.structs.replace(report.evidence, **changes)
    return msgspec.structs.replace(report, evidence=evidence)


def _without_tails(report: NodeReport) -> NodeReport:
    assert report.evidence is not None
    ends = tuple(msgspec.structs.replace(end, tail=()) for end in report.evidence.ends)
    return _changed(report, ends=ends)


def _with_short_errors(report: NodeReport) -> NodeReport:
    assert report.evidence is not None
    ends = []
    for end in report.evidence.ends:
        error = end.error
        if error is not None:
            short = error.message[:LONG_MESSAGE]
            error = msgspec.structs.replace(error, message=short, related=())
        ends.append(msgspec.structs.replace(end, error=error))
    return _changed(report, ends=tuple(ends))


def _with_few_ends(report: NodeReport) -> NodeReport:
    """The first to end, without those that we ended ourselves as long as there are others."""
    assert report.evidence is not None
    ends = sorted(report.evidence.ends, key=lambda end: (end.ours, end.mono))[:FEW_ENDS]
    return _changed(report, ends=tuple(sorted(ends, key=lambda end: end.mono)))
