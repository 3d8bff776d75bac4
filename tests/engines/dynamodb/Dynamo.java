/* Dynamo.java - DynamoDB Local on loopback, and Amazon's lock client as a candidate.
 *
 *   Dynamo serve PORT [DATA-FOLDER]
 *   Dynamo contend PORT TABLE NAME OWNER LOG LEASE_MS HOLD_MS COUNT keep|delete
 *   Dynamo stuck PORT TABLE NAME OWNER LOG LEASE_MS
 *   Dynamo list PORT TABLE
 *
 * A term of "contend" is two lines in LOG: "begin MS OWNER" and "end MS OWNER". "stuck" appends
 * "act MS OWNER" until it is killed, whether the lock is lost or not: as work does that does not
 * ask. */
import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;
import java.io.FileWriter;
import java.lang.reflect.Field;
import java.net.URI;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

public class Dynamo {
    /* The server has no option for its address, so its connectors are told before it starts. */
    static void serve(String port, String folder) throws Exception {
        String[] memory = { "-inMemory", "-port", port };
        String[] disk = { "-dbPath", folder, "-sharedDb", "-port", port };
        DynamoDBProxyServer server =
            ServerRunner.createServerFromCommandLineArgs(folder == null ? memory : disk);
        for (Field field : DynamoDBProxyServer.class.getDeclaredFields()) {
            if (field.getType().getName().equals("org.eclipse.jetty.server.Server")) {
                field.setAccessible(true);
                Object jetty = field.get(server);
                for (Object connector :
                     (Object[]) jetty.getClass().getMethod("getConnectors").invoke(jetty))
                    connector.getClass()
                        .getMethod("setHost", String.class)
                        .invoke(connector, "127.0.0.1");
            }
        }
        server.start();
        System.out.println("ready");
        server.join();
    }

    static DynamoDbClient client(String port) {
        return DynamoDbClient.builder()
            .endpointOverride(URI.create("http://127.0.0.1:" + port))
            .region(Region.US_EAST_1)
            .credentialsProvider(
                StaticCredentialsProvider.create(AwsBasicCredentials.create("AKIDTEST", "secret")))
            .build();
    }

    static AmazonDynamoDBLockClient locks(String port, String table, String owner, long lease) {
        return new AmazonDynamoDBLockClient(
            AmazonDynamoDBLockClientOptions.builder(client(port), table)
                .withPartitionKeyName("key")
                .withOwnerName(owner)
                .withTimeUnit(TimeUnit.MILLISECONDS)
                .withLeaseDuration(lease)
                .withHeartbeatPeriod(lease / 4)
                .withCreateHeartbeatBackgroundThread(true)
                .build());
    }

    static void write(String path, String line) throws Exception {
        try (FileWriter log = new FileWriter(path, true)) {
            log.write(line + "\n");
        }
    }

    static void contend(String[] words) throws Exception {
        String owner = words[4];
        String path = words[5];
        try (AmazonDynamoDBLockClient locks =
                 locks(words[1], words[2], owner, Long.parseLong(words[6]))) {
            for (int i = 0; i < Integer.parseInt(words[8]); i++) {
                LockItem lock = locks.acquireLock(
                    AcquireLockOptions.builder(words[3])
                        .withTimeUnit(TimeUnit.MILLISECONDS)
                        .withRefreshPeriod(100L)
                        .withAdditionalTimeToWaitForLock(120000L)
                        .withDeleteLockOnRelease(words[9].equals("delete"))
                        .build());
                write(path, "begin " + System.currentTimeMillis() + " " + owner);
                Thread.sleep(Long.parseLong(words[7]));
                write(path, "end " + System.currentTimeMillis() + " " + owner);
                locks.releaseLock(lock);
                Thread.sleep(Long.parseLong(words[7])); /* There is no line: let others in. */
            }
        }
    }

    static void stick(String[] words) throws Exception {
        AmazonDynamoDBLockClient locks =
            locks(words[1], words[2], words[4], Long.parseLong(words[6]));
        locks.acquireLock(AcquireLockOptions.builder(words[3]).build());
        for (;;) {
            write(words[5], "act " + System.currentTimeMillis() + " " + words[4]);
            Thread.sleep(20);
        }
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve"))
            serve(words[1], words.length > 2 ? words[2] : null);
        else if (words[0].equals("contend"))
            contend(words);
        else if (words[0].equals("stuck"))
            stick(words);
        else
            try (AmazonDynamoDBLockClient locks = locks(words[1], words[2], "lister", 1000)) {
                locks.getAllLocksFromDynamoDB(false).forEach(
                    lock -> System.out.println(lock.getOwnerName() + " " + lock.isExpired()));
            }
        System.exit(0);
    }
}
