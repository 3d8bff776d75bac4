/* Latch - a worker of bench/compare: Curator's LeaderLatch, used as its documentation shows it.
 *
 * usage: java Latch HOST:PORT NAME ID TTL-SECONDS COUNT
 *
 * bench/compare/run says what a worker prints. LeaderLatch gives no token. */
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Latch {
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

    static void campaign(String[] args, String id) {
        int ttl = Integer.parseInt(args[3]) * 1000;
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            args[0], ttl, 5000, new ExponentialBackoffRetry(100, 10));
        client.start();
        LeaderLatch latch = new LeaderLatch(client, "/" + args[1], id);
        try {
            latch.start();
            say("wait", id);
            while (!stopping) {
                if (latch.hasLeadership()) {
                    say("act", id);
                }
                Thread.sleep(5);
            }
            say("resign", id);
            latch.close();
        } catch (Exception e) {
            System.err.println(e);
        }
        client.close();
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[4]);
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            String id = count > 1 ? args[2] + i : args[2];
            threads[i] = new Thread(() -> campaign(args, id));
            threads[i].start();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            for (Thread thread : threads) {
                try {
                    thread.join(5000);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }));
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
