"""Redelivery of dead letters to members that come after those that rejected the records."""

from __future__ import annotations

from tests.server.dead_letters import ACCEPT, DEAD, REJECT, configure, create, letters_settle
from tests.server.share_members import Scene, play, until
from tests.server.test_share_administration import AVAILABLE, NOTHING, REDELIVERY, alter, begin, changes


def test_dead_letters_are_delivered_to_members_that_come_after_all_others_left() -> None:
    """The share-partition is loaded again with the mark of the last letter, which is in no doubt any more."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        client = await begin(scene, b"0", b"1", b"2")
        ann, bob = scene.member("ann"), scene.member("bob")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 2, [ACCEPT, REJECT, ACCEPT])]})
        await letters_settle(scene)
        ann.disconnect()
        await until(lambda: not list(scene.shared()))
        assert await bob.fetch(0) == {}
        assert changes(await alter(client, REDELIVERY, (1, 1))) == [(1, 1, NOTHING, AVAILABLE)]
        assert (await bob.fetch(0))[0].values == [b"1"]

    play(story)
