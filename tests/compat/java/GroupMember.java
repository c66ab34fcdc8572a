import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a group with the Java client; see support/member_program.py for what it is told and says. */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean closing;

    public static void main(String[] args) throws Exception {
        JsonNode asked = JSON.readTree(args[0]);
        Thread ears = new Thread(GroupMember::awaitTheEnd);
        ears.setDaemon(true);
        ears.start();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(asked))) {
            String topic = asked.get("topic").asText();
            if (!topic.startsWith("^")) {
                consumer.subscribe(List.of(topic), new GroupMember());
            } else if (asked.get("protocol").asText().equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(topic.substring(1)), new GroupMember());
            } else {
                consumer.subscribe(Pattern.compile(topic.substring(1)), new GroupMember());
            }
            while (!closing) {
                read(consumer);
            }
        } catch (KafkaException failure) {
            say("failed", "error", failure.toString());
            throw failure;
        }
        say("closed", "closed", true);
    }

    private static Properties settings(JsonNode asked) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("client.id", "compat-java");
        settings.put("group.id", asked.get("group").asText());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "200");
        settings.put("metadata.max.age.ms", "1000"); // how soon a new topic is found by an expression
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("group.protocol", asked.get("protocol").asText());
        if (asked.get("protocol").asText().equals("classic")) {
            settings.put("session.timeout.ms", asked.get("session_timeout_ms").asText());
            settings.put("heartbeat.interval.ms", asked.get("heartbeat_ms").asText());
            settings.put(
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        if (!asked.get("instance_id").isNull()) {
            settings.put("group.instance.id", asked.get("instance_id").asText());
        }
        return settings;
    }

    private static void read(KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(100));
        if (batch.isEmpty()) {
            return;
        }
        List<List<Object>> records = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> upto = new HashMap<>();
        Map<Integer, Long> offsets = new LinkedHashMap<>();
        for (ConsumerRecord<String, String> one : batch) {
            records.add(List.of(one.partition(), one.offset(), one.value()));
            upto.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
            offsets.put(one.partition(), one.offset() + 1);
        }
        say("records", "records", records);
        try {
            consumer.commitSync(upto);
            say("committed", "offsets", offsets);
        } catch (KafkaException refusal) {
            say("commit-refused", "error", refusal.toString());
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("added", "partitions", partitions.stream().map(TopicPartition::partition).toList());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("removed", "partitions", partitions.stream().map(TopicPartition::partition).toList());
    }

    private static void awaitTheEnd() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                closing |= line.strip().equals("close");
            }
        } catch (java.io.IOException gone) {
            closing = false;
        }
        if (!closing) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static synchronized void say(String event, String field, Object value) {
        try {
            System.out.println(JSON.writeValueAsString(Map.of("event", event, field, value)));
            System.out.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
