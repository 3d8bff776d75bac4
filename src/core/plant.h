/* plant.h - bugs planted on purpose, to prove that the simulator's checkers find them.
 *
 * A checker that never fired proves nothing. Each line of TN_PLANT_LIST is one mistake that a lease
 * library has really shipped; `tenure sim --plant NAME` runs the simulator on code that makes it,
 * and the suite fails unless the promise named here is reported broken.
 *
 * Only the program `tenure-planted` is compiled with TN_PLANTS. Everywhere else TN_PLANT(x) is the
 * constant 0, and the compiler removes the branch. */
#ifndef TN_CORE_PLANT_H
#define TN_CORE_PLANT_H

/* X(symbol, name, promise that breaks, what the code does wrong) */
#define TN_PLANT_LIST(X)                                                                           \
    X(REPLY_DEADLINE, "reply-deadline", "P1", "the deadline counts from the reply, not the send")  \
    X(NO_MARGIN, "no-margin", "P1", "the holder trusts the whole TTL, as if clocks ran alike")     \
    X(NO_LATCH, "no-latch", "P6", "a late renewal makes an expired term valid again")              \
    X(FLAG_NOT_DEADLINE, "flag-not-deadline", "P1", "validity is a flag, not a clock comparison")  \
    X(GONE_IS_OK, "gone-is-ok", "P9", "the answer \"no such session\" counts as a renewal")        \
    X(ANY_REPLY, "any-reply", "P1", "a reply is not matched to its request: newest send counts")   \
    X(SHORT_GRANT, "short-grant", "P1", "a TTL cut short by the store is not noticed")             \
    X(NO_HOLD_OFF, "no-hold-off", "G1", "the holder leads on into the hold-off")                   \
    X(MORE_IGNORED, "more-ignored", "P1", "extends although revocations were left unread")         \
    X(LATE_RETRY, "late-retry", "P8", "a failed renewal is retried only a full interval later")    \
    X(RENEW_ONCE, "renew-once", "P8", "a lost renewal is waited for, never repeated")              \
    X(FENCE_AFTER_WON, "fence-after-won", "P4", "the fence is raised after the application won")   \
    X(FENCE_SKIPPED, "fence-skipped", "P4", "a failed fence raise is taken for a raised fence")    \
    X(DRAIN_SKIPPED, "drain-skipped", "P5", "releases while the work still runs")                  \
    X(DRAIN_FORGOTTEN, "drain-forgotten", "P5", "campaigns again while the old work still runs")   \
    X(REVOKE_IGNORED, "revoke-ignored", "P1", "a revoked holder goes on")                          \
    X(REVOKE_FORGOTTEN, "revoke-forgotten", "P1", "a revocation that overtakes its grant is lost") \
    X(DOUBT_IGNORED, "doubt-ignored", "P1", "a lease that vanished from the store is not missed")  \
    X(NO_HIGH_WATER, "no-high-water", "P2", "leads with a token below one already seen")           \
    X(NOT_READY_WINS, "not-ready-wins", "R1", "a candidate that is not ready acquires")            \
    X(WON_TWICE, "won-twice", "W1", "a repeated grant is told to the application again")           \
    X(STRAY_KEPT, "stray-kept", "P7", "a grant nobody waits for any more is kept for ever")        \
    X(NO_POLL, "no-poll", "P7", "a lost wake-up is never made good by the backstop poll")          \
    X(RELEASE_ONCE, "release-once", "P7", "a lost release is not repeated")                        \
    X(STALL_KEPT, "stall-kept", "S1", "a stalled work loop keeps its term")                        \
    X(RELEASE_BY_NAME, "release-by-name", "P5", "a release needs only the name")                   \
    X(TOKEN_IN_MEMORY, "token-in-memory", "P2", "the token counter restarts with the store")       \
    X(TOKEN_PER_SESSION, "token-per-session", "P2", "a returning holder gets its old token again") \
    X(TOKEN_FROM_RECORD, "token-from-record", "P2", "deleting a name resets its token")            \
    X(REVIVE_EXPIRED, "revive-expired", "Q1", "a renewal revives an expired session")              \
    X(RESTART_FORGETS, "restart-forgets", "P1", "sessions do not get a full TTL after a restart")  \
    X(EARLY_EXPIRY, "early-expiry", "P1", "the store expires a session before its TTL is over")    \
    X(RETRY_NOT_IDEMPOTENT, "retry-not-idempotent", "P2", "a repeated acquire starts a new term")  \
    X(QUEUE_SKIPPED, "queue-skipped", "Q1", "a vacancy goes to the newest waiter")                 \
    X(DEAD_WAITER, "dead-waiter", "Q1", "a vacancy goes to a waiter whose session is over")        \
    X(REVOKE_AT_ONCE, "revoke-at-once", "P1", "a revoked lease is given away without a hold-off")  \
    X(NEVER_EXPIRES, "never-expires", "P7", "the store forgets to expire sessions")                \
    X(OLD_RENEWAL, "old-renewal", "P7", "a renewal delayed in the network extends the session")    \
    X(READ_BEFORE, "read-before", "P1", "the observer counts from before the read")                \
    X(OBSERVER_RESUMES, "observer-resumes", "P1", "the observer does not restart on a change")     \
    X(BLIND_TAKEOVER, "blind-takeover", "P1", "takes over without comparing what was observed")    \
    X(OWN_TTL, "own-ttl", "P1", "waits for its own TTL instead of the holder's")                   \
    X(ROW_ADOPTED, "row-adopted", "P1", "a row found after a lost reply is led without a write")   \
    X(ROW_UNCOVERED, "row-uncovered", "P1", "a renewal counts for a row that it did not write")    \
    X(RENEW_PARTIAL, "renew-partial", "P1", "a renewal succeeds though one of its rows failed")    \
    X(UNKNOWN_IS_WRITTEN, "unknown-is-written", "P1", "a write without an answer counts as done")  \
    X(PUT_BLIND, "put-blind", "P2", "a write without an answer is repeated without a condition")   \
    X(RELEASE_BLIND, "release-blind", "P5", "a release that conflicts overwrites the successor")   \
    X(ROW_REMOVED, "row-removed", "P2", "a release removes the row, and its token with it")        \
    X(TOKEN_OF_RENEWAL, "token-of-renewal", "P2", "the token is the newest write's version")       \
    X(TOKEN_RECOUNTED, "token-recounted", "P2", "a deleted row restarts a token that is minted")   \
    X(FLOOR_IGNORED, "floor-ignored", "P2", "a minted token at or below the floor is granted")     \
    X(SESSION_REBORN, "session-reborn", "P1",                                                      \
      "a session that is gone is opened again, and led on")                                        \
    X(NO_LOCK_DELAY, "no-lock-delay", "P1", "a session that ends early frees its rows at once")    \
    X(RENEWAL_WAITS, "renewal-waits", "P8", "a renewal waits for one before it that hangs")        \
    X(FEED_RESUMES, "feed-resumes", "P1",                                                          \
      "a change that the feed shows does not restart the count")                                   \
    X(FEED_STRAY, "feed-stray", "P1", "a feed's word of a row of ours is taken for a grant")       \
    X(FEED_OLD, "feed-old", "P7", "an event from before a read makes forget what was read")        \
    X(FEED_TRUSTED, "feed-trusted", "P7", "a feed that is silent is trusted, and nothing is read") \
    X(MINORITY_GRANT, "minority-grant", "P1", "one vote less than a majority is enough")           \
    X(VOTE_TWICE, "vote-twice", "P1", "a server that repeats its answer has voted twice")          \
    X(RENEW_ANYWHERE, "renew-anywhere", "P1", "any majority renews, not one that has the votes")   \
    X(VOTES_FOUND, "votes-found", "P1", "a confirmed term found by a read is led unrenewed")       \
    X(FIRST_TOKEN, "first-token", "P2", "the token is the first vote's, not the highest")          \
    X(VOTES_KEPT, "votes-kept", "P7", "votes are not given back, and nobody has a majority")       \
    X(LINE_UNLOOKED, "line-unlooked", "P1", "leads when its predecessor goes, without a look")     \
    X(LINE_UNPROVED, "line-unproved", "P1", "leads by a look, not proving that its key is there")  \
    X(OLD_SESSION_KEY, "old-session-key", "P1", "a key of an earlier session is taken for ours")   \
    X(RELEASE_FIRST, "release-first", "P5", "a release deletes the first key, whosever it is")     \
    X(TOKEN_OF_REPLY, "token-of-reply", "P2", "the token is a reply's revision, not the key's")    \
    X(CREATE_REPEATED, "create-repeated", "P7", "a create without an answer is simply repeated")   \
    X(UNSURE_LAGS, "unsure-lags", "P7",                                                            \
      "a create without an answer is sought on a lagging server")                                  \
    X(NAMED_OLDEST, "named-oldest", "P7", "of the keys that bear our name, the oldest is ours")    \
    X(HOLD_OFF_SHARED, "hold-off-shared", "P1",                                                    \
      "a second revocation of a session joins the first one's hold-off as it is")                  \
    X(UNWATCHED_RENEWED, "unwatched-renewed", "P1",                                                \
      "a renewal counts while a lost watch may have told of a revocation")                         \
    X(AGENT_NOT_NESTED, "agent-not-nested", "N1",                                                  \
      "a local TTL is promised beyond the agent's upstream deadline")                              \
    X(AGENT_ONE_DEADLINE, "agent-one-deadline", "N1",                                              \
      "of several upstreams only the first one's deadline is promised within")                     \
    X(AGENT_COUNTED_LATE, "agent-counted-late", "N1",                                              \
      "a dead upstream no longer bounds what is promised, and its names are not recalled yet")     \
    X(AGENT_GRANTS_EARLY, "agent-grants-early", "N1",                                              \
      "a grant goes to a session that may be valid beyond that upstream's deadline")               \
    X(AGENT_DRAGS_ALL, "agent-drags-all", "N3",                                                    \
      "a dead upstream bounds what is promised to a session until its other names are lost")       \
    X(AGENT_TOKEN_KEPT, "agent-token-kept", "P2", "the next local holder gets the same token")     \
    X(AGENT_GRANTS, "agent-grants", "P2", "an agent grants a name that upstream did not give it")  \
    X(AGENT_LOST_IGNORED, "agent-lost-ignored", "P1",                                              \
      "a term that upstream took away is led on locally")                                          \
    X(AGENT_GIVES_BACK, "agent-gives-back", "P1",                                                  \
      "an agent gives a term back upstream before its local holder has stopped")                   \
    X(AGENT_FORGETS, "agent-forgets", "P1",                                                        \
      "an agent that starts again gives back what local sessions hold")                            \
    X(AGENT_NEW_SESSION, "agent-new-session", "P1",                                                \
      "an agent that starts again goes on with old terms under a new session")                     \
    X(AGENT_UNTOLD, "agent-untold", "P1",                                                          \
      "an agent with a new session frees what is held locally, and tells no holder")               \
    X(NOTE_OLD_TOKEN, "note-old-token", "H1", "steps down for a note that names an earlier term")  \
    X(NOTE_IGNORED, "note-ignored", "H2", "a holder that is asked to step down leads on")          \
    X(NOTE_RETURNS, "note-returns", "H2", "a holder that was asked to step down wins again")       \
    X(NOTE_FOREVER, "note-forever", "P7", "a note that is over still keeps candidates out")        \
    X(REVOKE_RETURNS, "revoke-returns", "H2", "a revoked holder campaigns again at once")          \
    X(RANK_IGNORED, "rank-ignored", "H3", "a candidate stays in line before a higher one")         \
    X(RANK_KEPT, "rank-kept", "H3", "a leader that yields leads on although a higher one waits")   \
    X(SOFT_ANY_FENCES, "soft-any-fences", "F1",                                                    \
      "takes over early although the fences are not the same")                                     \
    X(SOFT_UNRAISED, "soft-unraised", "F1",                                                        \
      "who took over early wins before its fences are raised")                                     \
    X(SOFT_OLD_RENEWAL, "soft-old-renewal", "F1",                                                  \
      "the soft limit counts from an earlier renewal than the last")                               \
    X(SOFT_NO_REST, "soft-no-rest", "F1",                                                          \
      "behind an early successor anyone leads before the former's time is over")                   \
    X(SOFT_STILL_RENEWED, "soft-still-renewed", "F1", "a superseded session is renewed")           \
    X(FENCE_BACKWARDS, "fence-backwards", "P3",                                                    \
      "the fence remembers the latest token, not the highest")                                     \
    X(CLOCK_IN_SUSPEND, "clock-in-suspend", "P1", "the holder's clock stands still in suspend")    \
    X(WALL_CLOCK, "wall-clock", "P1", "the holder's clock is the wall clock, and it is stepped")   \
    X(SHARED_IDENTITY, "shared-identity", "P2",                                                    \
      "the label is the identity: namesakes share a session")

#define TN_PLANT_ENUM(symbol, name, promise, wrong) TN_PLANT_##symbol,
enum tn_plant { TN_PLANT_NONE, TN_PLANT_LIST(TN_PLANT_ENUM) TN_PLANT_COUNT };
#undef TN_PLANT_ENUM

#ifdef TN_PLANTS
extern enum tn_plant tn_planted; /* Set once, before the simulation starts. */
#define TN_PLANT(symbol) (tn_planted == TN_PLANT_##symbol)
#define TN_PLANT_OTHER(symbol) (tn_planted != TN_PLANT_NONE && !TN_PLANT(symbol))
#else
#define TN_PLANT(symbol) 0
#define TN_PLANT_OTHER(symbol) 0
#endif

#endif
