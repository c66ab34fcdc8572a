"""The answers to commits of a consumer group with members: what a member may commit, and an administrator.

* A commit in the member's current epoch is accepted, except of a paused partition that it does not own.
* A commit in an earlier epoch is accepted if the member has owned each partition since then, and refused
  otherwise (KIP-1251).
* An administrator's commit is accepted if each partition is paused and has no owner. One with an owner is to
  be tried again; one that is not paused is refused (KIP-1249).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.member_view import Grant, MemberView, Part
from tests.simulation.pause_model import Owners, PauseModel
from tests.simulation.requests import Request, Violation

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId

NONE = ErrorCode.NONE


@dataclass
class Committed:
    """A commit, and what the model knows of its sender."""

    request: Request
    epoch: int
    parts: list[Part | None]
    """None: the topic does not exist."""
    pauses: PauseModel
    counts: Counter[str]

    def check_accepted(
        self, view: MemberView | None, ledger: Mapping[Part, tuple[MemberId, Grant]], *, is_expired: bool
    ) -> None:
        """Check that a member may commit this; `ledger` has the last owner of each partition."""
        request, epoch = self.request, self.epoch
        if view is None:
            raise Violation(f"{request} was accepted of a member that nobody let in")
        if is_expired:
            raise Violation(f"{request} was accepted of a member not heard of since {view.heard_at}: {view}")
        if epoch > view.epoch:
            raise Violation(f"{request} was accepted in an epoch that its member is not in: {view}")
        for part in self.parts:
            if part in self.pauses and part not in view.owned:
                raise Violation(f"{request} was accepted, {part} is paused, and {view} does not have it")
        self.counts["commits of paused partitions by their owners"] += any(
            part in self.pauses for part in self.parts
        )
        if epoch == view.epoch:
            return
        if not view.may_have_all_since(self.parts, epoch):
            raise Violation(f"{request} of a zombie was accepted: {view}")
        self.counts["commits in earlier epochs accepted"] += 1
        for part in self.parts:
            owner, grant = ledger.get(part, (view.member_id, Grant(0, 0))) if part else ("", Grant(0, 0))
            if owner != view.member_id and grant.low > epoch:
                raise Violation(f"{request} of a zombie was accepted: {part} is {owner}'s since {grant}")

    def check_stale(self, view: MemberView | None) -> None:
        """Check that a member's commit had to be refused as stale."""
        if view is None:
            return
        owned = {} if view.is_blurred else view.owned
        is_withheld = any(part in self.pauses and part not in owned for part in self.parts)
        if self.epoch == view.epoch and is_withheld:
            self.counts["commits of paused partitions refused"] += 1
        elif self.epoch == view.epoch:
            raise Violation(f"{self.request} in the member's present epoch was refused: {view}")
        elif self.epoch < view.epoch:
            self.counts["commits in earlier epochs refused"] += 1
            if view.has_all_since(self.parts, self.epoch):
                raise Violation(f"{self.request} of an owner was refused: {view}")

    def check_administrators(self, error: ErrorCode, owners: Owners) -> None:
        """Check the answer to a commit of no member."""
        request, has_members = self.request, owners.has_sure_members(self.request)
        paused = [part for part in self.parts if part is not None and part in self.pauses]
        is_all_paused = len(paused) == len(self.parts)
        if error is NONE and has_members:
            if not is_all_paused:
                raise Violation(f"{request} was accepted of nobody, in a group with members")
            for part in paused:
                if (owner := owners.sure_owner(part, request)) is not None:
                    raise Violation(f"{request} was accepted, and {part} is owned by {owner}")
            self.counts["resets of paused partitions"] += 1
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            if not (is_all_paused and any(owners.may_be_owned(part) for part in paused)):
                raise Violation(f"{request} is to be tried again; paused are {paused}, and nobody has them")
            self.counts["resets before the release refused"] += 1
        elif error is not NONE and is_all_paused:
            raise Violation(f"{request} was refused with {error!r}, and all of it is paused")
