import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/** What Apache Kafka measures of amounts that are drawn from a seed: a line for each step. */
public class Rates {
    public static void main(String[] arguments) throws Exception {
        Random draw = new Random(Long.parseLong(arguments[0]));
        int histories = Integer.parseInt(arguments[1]);
        for (int history = 0; history < histories; history++) {
            int count = 1 + draw.nextInt(12);
            int sizeMs = 1000 * (1 + draw.nextInt(3));
            double bound = 1 + draw.nextInt(200);
            MetricConfig config = new MetricConfig()
                .samples(count).timeWindow(sizeMs, TimeUnit.MILLISECONDS).quota(Quota.upperBound(bound));
            Rate rate = new Rate();
            TokenBucket bucket = new TokenBucket();
            long now = 1_000_000;
            System.out.println("new " + count + " " + sizeMs + " " + bound + " " + now);
            bucket.record(config, 0, now);
            for (int step = 0; step < 40; step++) {
                now += draw.nextInt(4) == 0 ? draw.nextInt(2 * sizeMs * count) : draw.nextInt(sizeMs);
                double amount = draw.nextInt(300);
                rate.record(config, amount, now);
                bucket.record(config, amount, now);
                System.out.println(amount + " " + now + " " + rate.measure(config, now) + " "
                    + rate.windowSize(config, now) + " " + bucket.measure(config, now));
            }
        }
    }
}
