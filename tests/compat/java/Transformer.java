import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A loop of the Java client that consumes, transforms and produces; see support/transformer_program.py. */
public final class Transformer {
    private static final int MOST = 10;
    private static final int ABORTED = 1;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Semaphore LINES = new Semaphore(0);

    private final JsonNode asked;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private int number;

    private Transformer(JsonNode asked) {
        this.asked = asked;
        consumer = new KafkaConsumer<>(consumerSettings(asked));
        consumer.subscribe(List.of(asked.get("source").asText()));
        producer = new KafkaProducer<>(producerSettings(asked));
        producer.initTransactions();
    }

    public static void main(String[] args) throws Exception {
        Thread ears = new Thread(Transformer::listen);
        ears.setDaemon(true);
        ears.start();
        Transformer transformer = new Transformer(JSON.readTree(args[0]));
        try {
            while (true) {
                ConsumerRecords<String, String> records = transformer.consumer.poll(Duration.ofMillis(100));
                while (!records.isEmpty() && !transformer.transact(records)) {
                    // The aborted one again.
                }
            }
        } catch (KafkaException refusal) {
            say(Map.of("event", "refused", "error", refusal.toString()));
            Runtime.getRuntime().halt(0);
        }
    }

    private static Properties consumerSettings(JsonNode asked) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("group.id", asked.get("group").asText());
        settings.put("session.timeout.ms", asked.get("session_timeout_ms").asText());
        settings.put("heartbeat.interval.ms", "300");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", MOST);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static Properties producerSettings(JsonNode asked) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("transactional.id", asked.get("transactional_id").asText());
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return settings;
    }

    /** Returns whether the transaction was committed. */
    private boolean transact(ConsumerRecords<String, String> records) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> one : records) {
            String value = one.value().toUpperCase(Locale.ROOT);
            producer.send(new ProducerRecord<>(asked.get("target").asText(), one.partition(), null, value));
            offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (number == asked.get("hold_at").asInt()) {
            producer.flush();
            say(Map.of("event", "holding"));
            LINES.acquireUninterruptibly();
        }
        if (number++ == ABORTED) {
            producer.abortTransaction();
            return false;
        }
        producer.commitTransaction();
        say(Map.of("event", "committed"));
        return true;
    }

    private static void listen() {
        try {
            for (int c = System.in.read(); c >= 0; c = System.in.read()) {
                if (c == '\n') {
                    LINES.release();
                }
            }
        } catch (java.io.IOException gone) {
            // As if it had ended.
        }
        Runtime.getRuntime().halt(1);
    }

    private static void say(Map<String, String> event) {
        try {
            System.out.println(JSON.writeValueAsString(event));
            System.out.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
