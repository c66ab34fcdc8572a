import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams counts words with exactly_once_v2, and writes each new count.
 *
 * <p>Words pass a repartition topic, counts are in a RocksDB store with a changelog. There is no cache, so that
 * every word makes one record. Says `state` with each state of the application; ends when its input does.
 */
public final class WordCount {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JsonNode asked = JSON.readTree(args[0]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(asked.get("source").asText())
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as(Stores.persistentKeyValueStore("counts")))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(asked.get("target").asText(), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(asked));
        streams.setStateListener((state, before) -> say(Map.of("event", "state", "state", state.toString())));
        streams.setUncaughtExceptionHandler(failure -> {
            say(Map.of("event", "failed", "error", failure.toString()));
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Nothing is told to it.
        }
        Runtime.getRuntime().halt(1);
    }

    private static Properties settings(JsonNode asked) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, asked.get("application").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, asked.get("bootstrap").asText());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, asked.get("directory").asText());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 2000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 300);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10000);
        return settings;
    }

    private static synchronized void say(Map<String, String> event) {
        try {
            System.out.println(JSON.writeValueAsString(event));
            System.out.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
