import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Writes batches.tsv, a name and a batch in base64 a line, with Apache Kafka 4.3.1's own writer. */
public class WriteBatches {
    static final long T = 1700000000000L;

    static List<SimpleRecord> few(boolean headers) {
        Header[] three = {
            new RecordHeader("h", "1".getBytes()), new RecordHeader("h", null),
            new RecordHeader("clé", new byte[] {0, -1})};
        List<SimpleRecord> out = new ArrayList<>();
        out.add(new SimpleRecord(T, "k0".getBytes(), "v0".getBytes()));
        out.add(new SimpleRecord(T + 5, null, "value-1".getBytes()));
        out.add(new SimpleRecord(T - 3, "k2".getBytes(), (byte[]) null));
        out.add(new SimpleRecord(T + 100000, new byte[0], new byte[0],
            headers ? three : new Header[0]));
        out.add(new SimpleRecord(T + 2, "k4".getBytes(), "x".repeat(300).getBytes()));
        return out;
    }

    static List<SimpleRecord> many() {
        List<SimpleRecord> out = new ArrayList<>();
        for (int i = 0; i < 1500; i++)
            out.add(new SimpleRecord(T + i, ("key-" + i).getBytes(), "x".repeat(100).getBytes()));
        return out;
    }

    static Compression codec(String name) {
        return switch (name) {
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "lz4-12" -> Compression.lz4().level(12).build();
            case "zstd" -> Compression.zstd().build();
            default -> Compression.NONE;
        };
    }

    static void line(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        System.out.println(name + "\t" + Base64.getEncoder().encodeToString(bytes));
    }

    static void batch(String name, int magic, String codec, TimestampType type, long offset,
            List<SimpleRecord> records) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20),
            (byte) magic, codec(codec), type, offset, T + 777, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false,
            magic == 2 ? 7 : RecordBatch.NO_PARTITION_LEADER_EPOCH);
        for (SimpleRecord record : records)
            builder.append(record);
        line(name, builder.build().buffer());
    }

    public static void main(String[] args) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            batch("v2-few-" + codec, 2, codec, TimestampType.CREATE_TIME, 42, few(true));
            if (!codec.equals("none"))
                batch("v2-many-" + codec, 2, codec, TimestampType.CREATE_TIME, 0, many());
        }
        batch("v2-many-lz4-12", 2, "lz4-12", TimestampType.CREATE_TIME, 0, many());
        batch("v2-log-append-time", 2, "none", TimestampType.LOG_APPEND_TIME, 42, few(true));
        for (int magic = 0; magic < 2; magic++)
            for (String codec : List.of("none", "gzip", "snappy", "lz4")) {
                String name = "v" + magic + "-few-" + codec;
                batch(name, magic, codec, magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
                    : TimestampType.CREATE_TIME, 42, few(false));
            }
        batch("v1-log-append-time", 1, "gzip", TimestampType.LOG_APPEND_TIME, 42, few(false));
        line("idempotent", MemoryRecords.withIdempotentRecords(RecordBatch.MAGIC_VALUE_V2, 42L,
            Compression.NONE, 9000L, (short) 3, 2147483646, 7,
            few(true).toArray(new SimpleRecord[0])).buffer());
        line("transactional", MemoryRecords.withTransactionalRecords(RecordBatch.MAGIC_VALUE_V2,
            42L, Compression.NONE, 9000L, (short) 3, 17, 7,
            few(true).toArray(new SimpleRecord[0])).buffer());
        line("abort", MemoryRecords.withEndTransactionMarker(42L, T, 7, 9000L, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 5)).buffer());
        line("commit", MemoryRecords.withEndTransactionMarker(42L, T, 7, 9000L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 5)).buffer());
    }
}
