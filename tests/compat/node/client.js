// What agent.js and member.js share: a quiet kafkajs client with every codec, and lines of JSON on stdin and stdout.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel, CompressionTypes, CompressionCodecs } = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

// kafkajs brings gzip and asks for the others to be registered.
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrameSync(encoder.buffer),
  decompress: async buffer => lz4.decompressFrameSync(buffer),
})
const zstd = new Promise(resolve => ZstdCodec.run(resolve))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  // Streaming: librdkafka's frames do not say how long their content is, which Simple insists on.
  compress: async encoder => Buffer.from(new (await zstd).Streaming().compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(new (await zstd).Streaming().decompress(buffer)),
})

const connect = bootstrap =>
  new Kafka({
    clientId: 'compat-kafkajs',
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 8 },
  })

const say = value => process.stdout.write(JSON.stringify(value) + '\n')

// Calls `onLine` for each line, one after the other, and `onEnd` when whoever started us is gone.
const listen = (onLine, onEnd) => {
  let turn = Promise.resolve()
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => {
    turn = turn.then(() => onLine(line))
  })
  lines.on('close', () => {
    turn = turn.then(onEnd)
  })
}

module.exports = { connect, say, listen, CompressionTypes }
