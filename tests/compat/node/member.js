// One kafkajs member of a group; see support/member_program.py for what it is told and what it says.
'use strict'

const { AssignerProtocol } = require('kafkajs')
const { connect, say, listen } = require('./client')

const { MemberMetadata, MemberAssignment } = AssignerProtocol
const asked = JSON.parse(process.argv[2])

// kafkajs calls its only assignor "RoundRobinAssigner", which no other library has; this is everybody's "range".
const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  async assign({ members }) {
    const assigned = new Map(members.map(m => [m.memberId, {}]))
    const subscribed = new Map()
    for (const { memberId, memberMetadata } of members)
      for (const topic of MemberMetadata.decode(memberMetadata).topics)
        subscribed.set(topic, [...(subscribed.get(topic) ?? []), memberId])
    for (const [topic, consumers] of subscribed) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(p => p.partitionId).sort((a, b) => a - b)
      const least = Math.floor(partitions.length / consumers.length)
      const luckier = partitions.length % consumers.length
      consumers.sort().forEach((member, i) => {
        const from = i * least + Math.min(i, luckier)
        assigned.get(member)[topic] = partitions.slice(from, from + least + (i < luckier ? 1 : 0))
      })
    }
    return [...assigned].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: 0, assignment }),
    }))
  },
  protocol: ({ topics }) => ({ name: 'range', metadata: MemberMetadata.encode({ version: 0, topics }) }),
})

const main = async () => {
  const consumer = connect(asked.bootstrap).consumer({
    groupId: asked.group,
    partitionAssigners: [range],
    sessionTimeout: asked.session_timeout_ms,
    rebalanceTimeout: asked.session_timeout_ms,
    heartbeatInterval: asked.heartbeat_ms,
    maxWaitTimeInMs: 200,
  })
  consumer.on(consumer.events.REBALANCING, () => say({ event: 'revoked' }))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    say({ event: 'assigned', partitions: (payload.memberAssignment[asked.topic] ?? []).slice().sort((a, b) => a - b) }),
  )
  consumer.on(consumer.events.CRASH, ({ payload }) => say({ event: 'failed', error: String(payload.error) }))
  await consumer.connect()
  await consumer.subscribe({ topics: [asked.topic], fromBeginning: true })
  listen(
    async line => {
      if (line !== 'close') return
      await consumer.disconnect()
      say({ event: 'closed' })
      process.exit(0)
    },
    () => process.exit(1),
  )
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      say({ event: 'records', records: batch.messages.map(m => [batch.partition, Number(m.offset), m.value.toString()]) })
      const next = (BigInt(batch.lastOffset()) + 1n).toString()
      resolveOffset(batch.lastOffset())
      try {
        await consumer.commitOffsets([{ topic: asked.topic, partition: batch.partition, offset: next }])
        say({ event: 'committed', offsets: { [batch.partition]: Number(next) } })
      } catch (error) {
        say({ event: 'commit-refused', error: String(error) })
        throw error
      }
    },
  })
}

main().catch(error => {
  say({ event: 'failed', error: String(error.stack ?? error) })
  process.exit(1)
})
