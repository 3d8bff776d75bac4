/* Locks - a worker of bench/compare: Amazon's DynamoDB lock client with the proportions of its
 * defaults (a lease of 20 s, a heartbeat every 5 s, a look every second), asked before every act.
 * A candidate waits in one call, since each call observes a holder anew, for a whole lease.
 *
 * usage: java Locks HOST:PORT NAME ID TTL-SECONDS COUNT
 *
 * bench/compare/run says what a worker prints. A lock has no token: its version is a UUID. */
import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

public class Locks {
    static final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
    static volatile boolean stopping;

    static void say(String word, String id) {
        Instant now = Instant.now();
        long at = now.getEpochSecond() * 1000000000L + now.getNano();
        try {
            out.write((word + " " + id + " 0 " + at + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (java.io.IOException e) {
            Runtime.getRuntime().halt(1);
        }
    }

    /* Leads until the lock is lost, or the worker stops. */
    static void lead(AmazonDynamoDBLockClient locks, LockItem lock, String id) throws Exception {
        while (!stopping && !lock.isExpired()) {
            say("act", id);
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                continue; /* It is stopping. */
            }
        }
        if (stopping)
            say("resign", id);
        locks.releaseLock(lock);
    }

    static AcquireLockOptions acquire(String name) {
        return AcquireLockOptions.builder(name)
            .withTimeUnit(TimeUnit.HOURS)
            .withAdditionalTimeToWaitForLock(1L)
            .build();
    }

    static void campaign(String[] args, String id, DynamoDbClient client) {
        long ttl = Long.parseLong(args[3]) * 1000;
        try (AmazonDynamoDBLockClient locks = new AmazonDynamoDBLockClient(
                 AmazonDynamoDBLockClientOptions.builder(client, "locks")
                     .withPartitionKeyName("key")
                     .withOwnerName(id)
                     .withTimeUnit(TimeUnit.MILLISECONDS)
                     .withLeaseDuration(ttl)
                     .withHeartbeatPeriod(ttl / 4)
                     .withCreateHeartbeatBackgroundThread(true)
                     .build())) {
            /* Once for a name of its own: what it needs is loaded then. */
            locks.releaseLock(locks.acquireLock(acquire(args[1] + "-" + id)));
            say("wait", id);
            while (!stopping) {
                try {
                    Optional<LockItem> lock = locks.tryAcquireLock(acquire(args[1]));
                    if (lock.isPresent())
                        lead(locks, lock.get(), id);
                } catch (RuntimeException e) { /* The table does not answer, say: again. */
                    System.err.println(e);
                    Thread.sleep(100);
                }
            }
        } catch (Exception e) {
            System.err.println(e);
        }
    }

    public static void main(String[] args) throws Exception {
        DynamoDbClient client =
            DynamoDbClient.builder()
                .endpointOverride(URI.create("http://" + args[0]))
                .region(Region.US_EAST_1)
                .credentialsProvider(StaticCredentialsProvider.create(
                    AwsBasicCredentials.create("AKIDTEST", "secret")))
                .build();
        int count = Integer.parseInt(args[4]);
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            String id = count > 1 ? args[2] + i : args[2];
            threads[i] = new Thread(() -> campaign(args, id, client));
            threads[i].start();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            for (Thread thread : threads)
                thread.interrupt();
            for (Thread thread : threads) {
                try {
                    thread.join(5000);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }));
        for (Thread thread : threads)
            thread.join();
    }
}
