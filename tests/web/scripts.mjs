// scripts.mjs - the scripts whose transcripts are the same natively, in node and in Chromium.

// Any acts that a page could write, from a small generator of its own: the same on every run.
function randomScripts(count) {
  let state = 12345;
  const below = (n) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const spans = ["pause", "freeze", "suspend", "cut", "cutto", "cutfrom"];
  const plain = ["crash", "start", "mend", "resign", "campaign", "unready", "ready"];
  const store = [
    "revoke",
    "backup",
    "restore",
    () => `restart:${500 + below(9000)}`,
    () => `hang:${500 + below(5000)}`,
    () => `lose:${1 + below(300)}`,
    () => `rate:store:${below(200001) - 100000}`,
  ];
  const act = () => {
    const who = ["a", "b", "c", "leader"][below(4)];
    const kind = below(10);
    if (kind < 4) return `${spans[below(spans.length)]}:${who}:${100 + below(30000)}`;
    if (kind < 7) return `${plain[below(plain.length)]}:${who}`;
    if (kind < 8) return `rate:${who}:${below(600001) - 300000}`;
    const words = store[below(store.length)];
    return typeof words === "string" ? words : words();
  };
  return Array.from({ length: count }, () => {
    const head = [
      `nodes=${3 + below(3)}`,
      `ttl=${[1000, 3000, 15000][below(3)]}`,
      `style=${["queue", "watch", "observed"][below(3)]}`,
      `seed=${1 + below(1e6)}`,
      `fence=${["on", "off"][below(2)]}`,
      "end=60000",
    ];
    const acts = Array.from(
      { length: 1 + below(12) },
      () => `${below(50000)}.${below(1000)}:${act()}`,
    );
    return [...head, ...acts].join("+");
  });
}

// Each group with its name; the stories come first.
export function comparedScripts(engine) {
  const { stories, plants } = engine.catalogue;
  return [
    ["13 stories", stories.map((story) => `story=${story.name}`)],
    ["200 seeds", Array.from({ length: 200 }, (_, i) => `history=${i + 1}`)],
    [
      "every planted bug",
      plants.flatMap((plant) => [1, 2].map((seed) => `history=${seed}+plant=${plant.name}`)),
    ],
    ["100 random scripts", randomScripts(100)],
  ];
}
