// Does one kafkajs call for each line of JSON: {"call": name, "args": {...}} in, {"result": ...} or {"error": ...} out.
'use strict'

const { connect, say, listen, CompressionTypes } = require('./client')

const TOPIC_RESOURCE = 2
const TOPIC_ALREADY_EXISTS = 36
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const kafka = connect(process.argv[2])
const admin = kafka.admin()

const text = buffer => (buffer === null || buffer === undefined ? null : buffer.toString())

const calls = {
  createTopic: async ({ topic, partitions, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
    })
    // The one refusal that kafkajs does not throw is told by the answer.
    if (!created) throw Object.assign(new Error('the topic exists'), { code: TOPIC_ALREADY_EXISTS })
  },
  brokers: async () => (await admin.describeCluster()).brokers.map(b => `${b.host}:${b.port}`),
  listTopics: () => admin.listTopics(),
  partitionCount: async ({ topic }) => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
  deleteTopic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  addPartitions: ({ topic, total }) => admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  topicConfig: async ({ topic }) => {
    const described = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: TOPIC_RESOURCE, name: topic }],
    })
    return Object.fromEntries(described.resources[0].configEntries.map(e => [e.configName, e.configValue]))
  },
  setTopicConfig: ({ topic, name, value }) =>
    admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: TOPIC_RESOURCE, name: topic, configEntries: [{ name, value }] }],
    }),
  deleteRecords: async ({ topic, partition, before }) => {
    // deleteTopicRecords fails with "Topic metadata not loaded" for a topic that it has not been asked about before.
    await admin.fetchTopicOffsets(topic)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  },
  offsets: async ({ topic }) =>
    (await admin.fetchTopicOffsets(topic)).map(o => ({ partition: o.partition, low: Number(o.low), high: Number(o.high) })),
  offsetAt: async ({ topic, partition, timestamp }) => {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
    return Number(found.find(o => o.partition === partition).offset)
  },
  // setOffsets has no place for metadata.
  setOffsets: ({ group, topic, offsets }) =>
    admin.setOffsets({
      groupId: group,
      topic,
      partitions: offsets.map(([partition, offset]) => ({ partition, offset: String(offset) })),
    }),
  committed: async ({ group, topic }) =>
    (await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions.map(p => [
      p.partition,
      Number(p.offset),
      p.metadata,
    ]),
  listGroups: async () => (await admin.listGroups()).groups.map(g => g.groupId),
  describeGroup: async ({ group }) => {
    const described = (await admin.describeGroups([group])).groups[0]
    return { state: described.state, protocol: described.protocol, members: described.members.map(m => m.clientId) }
  },
  deleteGroup: ({ group }) => admin.deleteGroups([group]),
  produce: async ({ topic, codec, idempotent, records }) => {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      await producer.send({
        topic,
        acks: -1,
        compression: CODECS[codec],
        messages: records.map(r => ({
          key: r.key,
          value: r.value,
          partition: r.partition,
          headers: Object.fromEntries(r.headers),
          ...(r.timestamp_ms === null ? {} : { timestamp: String(r.timestamp_ms) }),
        })),
      })
    } finally {
      await producer.disconnect()
    }
  },
  // kafkajs reads only as a member of a group; a group of its own for each reading comes nearest to assign and seek.
  consume: async ({ topic, group, count, seek, timeout_ms }) => {
    const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200 })
    const seen = []
    await consumer.connect()
    try {
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      await new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${seen.length} of ${count} records came`)), timeout_ms)
        consumer
          .run({
            autoCommit: false,
            eachMessage: async ({ partition, message }) => {
              if (seen.length >= count) return
              seen.push({
                partition,
                offset: Number(message.offset),
                key: text(message.key),
                value: text(message.value),
                timestamp_ms: Number(message.timestamp),
                headers: Object.entries(message.headers ?? {}).map(([name, value]) => [name, text(value)]),
              })
              if (seen.length === count) {
                clearTimeout(timer)
                resolve()
              }
            },
          })
          .catch(reject)
        if (seek !== null) consumer.seek({ topic, partition: seek.partition, offset: String(seek.offset) })
      })
    } finally {
      await consumer.disconnect()
    }
    return seen
  },
}

// The reason lies where kafkajs happens to put it: in the error, in its cause, or in the list it wraps.
const codeOf = error => {
  const inner = error.errors?.[0] ?? error.groups?.[0] ?? error.partitions?.[0] ?? {}
  return [error.code, error.cause?.code, inner.code, inner.errorCode].find(code => typeof code === 'number') ?? null
}

const answer = async line => {
  const { call, args } = JSON.parse(line)
  try {
    say({ result: (await calls[call](args)) ?? null })
  } catch (error) {
    say({ error: String(error.message ?? error), code: codeOf(error) })
  }
}

const main = async () => {
  await admin.connect()
  say({ ready: true })
  listen(answer, async () => {
    await admin.disconnect()
    process.exit(0)
  })
}

main().catch(error => {
  say({ error: String(error.stack ?? error), code: null })
  process.exit(1)
})
