// One kafkajs loop that consumes, transforms and produces; see support/transformer_program.py for what it does.
'use strict'

const { connect, say, listen } = require('./client')

const asked = JSON.parse(process.argv[2])
const MOST = 10
const ABORTED = 1

const main = async () => {
  const kafka = connect(asked.bootstrap)
  const consumer = kafka.consumer({
    groupId: asked.group,
    sessionTimeout: asked.session_timeout_ms,
    rebalanceTimeout: asked.session_timeout_ms,
    heartbeatInterval: 300,
    maxWaitTimeInMs: 100,
    readUncommitted: false,
  })
  const producer = kafka.producer({ transactionalId: asked.transactional_id, maxInFlightRequests: 1, idempotent: true })
  let goOn
  const toldToGoOn = new Promise(resolve => (goOn = resolve))
  listen(goOn, () => process.exit(1))
  let number = 0

  // Resolves to whether it was committed.
  const transact = async (partition, messages) => {
    const transaction = await producer.transaction()
    await transaction.send({
      topic: asked.target,
      messages: messages.map(m => ({ partition, value: m.value.toString().toUpperCase() })),
    })
    const offset = (BigInt(messages.at(-1).offset) + 1n).toString()
    const topics = [{ topic: asked.source, partitions: [{ partition, offset }] }]
    await transaction.sendOffsets({ consumerGroupId: asked.group, topics })
    if (number === asked.hold_at) {
      say({ event: 'holding' })
      await toldToGoOn
    }
    if (number === ABORTED) {
      await transaction.abort()
    } else {
      await transaction.commit()
      say({ event: 'committed' })
    }
    return number++ !== ABORTED
  }

  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [asked.source], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (let at = 0; at < batch.messages.length; at += MOST) {
        const some = batch.messages.slice(at, at + MOST)
        try {
          while (!(await transact(batch.partition, some)));
        } catch (error) {
          say({ event: 'refused', error: String(error) })
          process.exit(0)
        }
        resolveOffset(some.at(-1).offset)
        await heartbeat()
      }
    },
  })
}

main().catch(error => {
  say({ event: 'failed', error: String(error.stack ?? error) })
  process.exit(1)
})
