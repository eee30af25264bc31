import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Kafka's own settings of consumers (or "producer"s), one a line: name, type, default, bounds; tabs between, "-" for none. */
public class ConsumerSettings {
    public static void main(String[] arguments) {
        boolean producers = arguments.length > 0 && arguments[0].equals("producer");
        ConfigDef settings = producers ? ProducerConfig.configDef() : ConsumerConfig.configDef();
        for (ConfigDef.ConfigKey key : new TreeMap<>(settings.configKeys()).values()) {
            System.out.println(String.join("\t", key.name, key.type.name(),
                    key.hasDefault() ? String.valueOf(key.defaultValue) : "-", String.valueOf(key.validator)));
        }
    }
}
