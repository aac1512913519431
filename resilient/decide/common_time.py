"""What nodes saw, by the clock of the store's host instead of each one's own."""

from collections.abc import Mapping

import msgspec

from resilient.model.evidence import AttemptEvidence, WorkerEnd
from resilient.model.membership import GroupCase, LostNode, NodeReport, Trouble


class CommonTime:
    """Times of one case. A node without a report is taken to have the right time.

    `noticed_at`: when the first node knew that the attempt was over.
    """

    def __init__(self, case: GroupCase, reports: Mapping[str, NodeReport]) -> None:
        self._case, self._reports = case, reports
        self.noticed_at = self._noticed_at()

    def uncertainty_s(self, node: str) -> float:
        """How far a time of this node may be from the true one."""
        report = self._reports.get(node)
        return max(0.0, report.uncertainty_s) if report is not None else 0.0

    def at(self, node: str, at: float) -> float:
        """A time on a node's clock (seconds since the epoch) in common time."""
        report = self._reports.get(node)
        return at + report.offset_s if report is not None else at

    def _noticed_at(self) -> float:
        noticed = [
            self.at(name, one.evidence.noticed_at)
            for name, one in self._reports.items()
            if one.evidence is not None
        ]
        alarm = self._case.alarm
        if not noticed and alarm is not None:
            return self.at(alarm.node, alarm.at)
        return min(noticed or map(self.lost_at, self._case.lost), default=0.0)

    def lost_at(self, lost: LostNode) -> float:
        """The last new beat of a lost node. Where the alarm was about it, its speaker knew best:
        the proposer's own silence may be shorter."""
        at, alarm = self.at(self._case.proposer, lost.last_at), self._case.alarm
        if alarm is not None and alarm.trouble is Trouble.NODE_LOST and alarm.about == lost.node:
            at = min(at, self.at(alarm.node, alarm.at - alarm.silent_s))
        return at

    def of_node(self, name: str, seen: AttemptEvidence) -> AttemptEvidence:
        """One node's evidence in common time, `mono` included."""
        noticed_at = self.at(name, seen.noticed_at)
        later = noticed_at - self.noticed_at  # than the node that knew first
        first = min(seen.ends, key=lambda end: end.mono, default=None)
        return msgspec.structs.replace(
            seen,
            started_at=self.at(name, seen.started_at),
            noticed_at=noticed_at,
            ends=tuple(self._end(name, end, first or end) for end in seen.ends),
            stopped=tuple(
                msgspec.structs.replace(one, seconds=max(0.0, one.seconds - later))
                for one in seen.stopped
            ),
        )

    def _end(self, name: str, end: WorkerEnd, first: WorkerEnd) -> WorkerEnd:
        # Measured from the node's first end: its clock may have been set in between.
        mono = self.at(name, first.at) + (end.mono - first.mono)
        return msgspec.structs.replace(end, at=self.at(name, end.at), mono=mono)
