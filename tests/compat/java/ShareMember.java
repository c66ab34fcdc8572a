import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a share group with the Java client; see support/share_members.py for what it does. */
public final class ShareMember {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean closing;

    public static void main(String[] args) throws Exception {
        JsonNode asked = JSON.readTree(args[0]);
        boolean explicit = asked.get("explicit").asBoolean();
        Thread ears = new Thread(ShareMember::awaitTheEnd);
        ears.setDaemon(true);
        ears.start();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings(asked))) {
            consumer.subscribe(List.of(asked.get("topic").asText()));
            while (!closing) {
                read(consumer, explicit, asked.get("holds").asBoolean());
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
        settings.put("group.id", asked.get("group").asText());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("share.acknowledgement.mode", asked.get("explicit").asBoolean() ? "explicit" : "implicit");
        settings.put("share.acquire.mode", asked.get("acquire_mode").asText());
        settings.put("max.poll.records", asked.get("most").asText());
        return settings;
    }

    private static void read(KafkaShareConsumer<String, String> consumer, boolean explicit, boolean holds)
            throws InterruptedException {
        ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(100));
        if (batch.isEmpty()) {
            return;
        }
        List<List<Object>> records = new ArrayList<>();
        for (ConsumerRecord<String, String> one : batch) {
            int count = one.deliveryCount().map(Short::intValue).orElse(-1);
            records.add(List.of(one.partition(), one.offset(), one.value(), count));
            if (explicit && !holds) {
                consumer.acknowledge(one, wordFor(one.value(), count));
            }
        }
        say("records", "records", records);
        while (holds) {
            Thread.sleep(1000);
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
        List<String> refusals = new ArrayList<>();
        results.values().forEach(result -> result.ifPresent(failure -> refusals.add(failure.toString())));
        say("acknowledged", "refusals", refusals);
    }

    private static AcknowledgeType wordFor(String value, int count) {
        if (value.startsWith("reject")) {
            return AcknowledgeType.REJECT;
        }
        if (value.startsWith("release") && count == 1) {
            return AcknowledgeType.RELEASE;
        }
        if (value.startsWith("renew") && RENEWED.add(value)) {
            return AcknowledgeType.RENEW;
        }
        return value.startsWith("poison") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    private static final java.util.Set<String> RENEWED = new java.util.HashSet<>();

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
