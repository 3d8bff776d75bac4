# report.awk - what bench/peers measured, as a table on stdout and as a picture in the file @svg.
#
# Input: lines of WORK SERVER VALUE, in the order of the rounds. A ratio is taken per round, because
# what disturbs a machine disturbs neighbours alike; the table has the median of them and how far
# they lie apart.

# What shrank while it was measured was not measured.
$3 >= 0 {
    value[$1, $2, ++count[$1, $2]] = $3
}

# The values of list[1..n], sorted in place.
function sort(list, n,   i, j, x) {
    for (i = 2; i <= n; i++) {
        x = list[i]
        for (j = i - 1; j > 0 && list[j] > x; j--)
            list[j + 1] = list[j]
        list[j + 1] = x
    }
}

# Sets low, median and high.
function sum_up(list, n) {
    sort(list, n)
    low = list[1]
    median = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    high = list[n]
}

function look_at(work, server,   list, i) {
    for (i = 1; i <= count[work, server]; i++)
        list[i] = value[work, server, i]
    sum_up(list, count[work, server])
}

# Beside one who did nothing at all there is no ratio.
function compare(work, ours, with, theirs,   list, i, n, most) {
    most = count[work, ours] < count[with, theirs] ? count[work, ours] : count[with, theirs]
    for (i = 1; i <= most; i++)
        if (value[with, theirs, i] + 0 != 0)
            list[++n] = value[work, ours, i] / value[with, theirs, i]
    sum_up(list, n)
}

# With a comma for each thousand.
function shown(x,   text) {
    if (x < 100)
        return sprintf("%.2f", x)
    text = sprintf("%.0f", x)
    while (match(text, /[0-9][0-9][0-9][0-9](,|$)/))
        text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
    return text
}

# Of what was summed up last.
function spread() {
    return shown(median) " (" shown(low) " to " shown(high) ")"
}

# @wanted: "" or "<= X" or ">= X".
function verdict(wanted, x,   parts) {
    if (wanted == "")
        return ""
    split(wanted, parts, " ")
    return (parts[1] == "<=" ? x <= parts[2] : x >= parts[2]) ? "yes" : "no"
}

function row(text, work, with, theirs, wanted,   ours, name) {
    if (!((work, "tenured") in count) || !((with, theirs) in count))
        return
    look_at(work, "tenured")
    ours = spread()
    look_at(with, theirs)
    name = with == work ? label(theirs) : "the same, empty"
    printf "| %s | %s | %s | %s | ", text, ours, name, spread()
    compare(work, "tenured", with, theirs)
    printf "%.2f (%.2f to %.2f) | %s | %s |\n", median, low, high, wanted, verdict(wanted, median)
}

function rows(text, work, wanted,   i) {
    for (i = 1; i <= servers; i++)
        if (order[i] != "tenured" && order[i] != "tenured-unix")
            row(text, work, work, order[i], wanted[work, order[i]])
}

# A number that is not compared with anybody's.
function alone(text, work, server, wanted) {
    if (!((work, server) in count))
        return
    look_at(work, server)
    printf "| %s | %s | %s | %s |\n", text, spread(), wanted, verdict(wanted, median)
}

function label(server) {
    if (server == "redis-aof") return "Redis, appendfsync always"
    if (server == "redis-memory") return "Redis, in memory"
    if (server == "tenured-unix") return "tenured, Unix socket"
    if (server == "zookeeper") return "ZooKeeper"
    if (server == "postgres") return "PostgreSQL"
    return server
}

# --- The picture ----------------------------------------------------------------------------------

function write(x, y, class, words) {
    printf "<text x=\"%.1f\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, words >svg
}

function panel(title, work, x, y,   i, n, most, width, colour) {
    write(x, y, "t", title)
    most = 0
    for (i = 1; i <= servers; i++)
        if ((work, order[i]) in count) {
            look_at(work, order[i])
            if (median > most)
                most = median
        }
    n = 0
    for (i = 1; i <= servers; i++) {
        if (!((work, order[i]) in count))
            continue
        look_at(work, order[i])
        width = most > 0 ? 190 * median / most : 0
        colour = order[i] ~ /^tenured/ ? "#1a7f4b" : order[i] == "floor" ? "#b0b0b0" : "#7a8ca5"
        write(x, y + 20 + 18 * n, "l", label(order[i]))
        printf "<rect x=\"%d\" y=\"%d\" ", x + 150, y + 10 + 18 * n >svg
        printf "width=\"%.1f\" height=\"12\" fill=\"%s\"/>\n", width < 1 ? 1 : width, colour >svg
        write(x + 155 + width, y + 20 + 18 * n, "v", shown(median))
        n++
    }
}

function draw(   height) {
    height = 4 * 185 + 50
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"" height "\">" >svg
    print "<style>text{font-family:sans-serif;font-size:11px;fill:#222}" >svg
    print ".t{font-size:13px;font-weight:bold}.n{fill:#555}</style>" >svg
    printf "<rect width=\"860\" height=\"%d\" fill=\"#fff\"/>\n", height >svg
    panel("Acquires a second, 1 connection", "acquire-1", 20, 30)
    panel("Acquires a second, 64 connections", "acquire-64", 450, 30)
    panel("Acquires a second, 256 connections", "acquire-256", 20, 215)
    panel("Renewals a second, 64 connections", "renew", 450, 215)
    panel("Release to the next holder, us (less is better)", "handover", 20, 400)
    panel("Holder crashed, TTL 5 s, ms (less is better)", "failover", 450, 400)
    panel("Bytes per lease held (less is better)", "lease", 20, 585)
    panel("Start to serving, ms (less is better)", "start", 450, 585)
    write(20, height - 15, "n", day ", one machine (" machine "), medians of " runs \
          " runs, in turns. floor: append, flush, answer, and nothing else.")
    print "</svg>" >svg
}

END {
    servers = split("floor tenured tenured-unix redis-aof redis-memory etcd zookeeper postgres",
                    order, " ")
    wanted["acquire-1", "floor"] = ">= 0.77" # At most 1.3 times its time.
    wanted["acquire-256", "floor"] = ">= 0.8"
    wanted["acquire-256", "redis-aof"] = ">= 1.7"
    wanted["acquire-256", "zookeeper"] = ">= 3.5"
    wanted["acquire-256", "etcd"] = ">= 20"
    wanted["renew", "redis-memory"] = ">= 1.2"
    wanted["pipelined", "redis-memory"] = ">= 1"
    wanted["handover", "redis-aof"] = "<= 0.6"
    wanted["handover", "etcd"] = "<= 0.5"

    printf "%s; %s; medians of %d runs of %s s, in turns; ", day, machine, runs, seconds
    printf "each server held %d leases.\n\n", leases
    print "| work | tenured (spread) | beside it | its (spread) | ratio (spread) | wanted | met |"
    print "|---|---|---|---|---|---|---|"
    rows("acquires a second, 1 connection", "acquire-1", wanted)
    rows("acquires a second, 64 connections", "acquire-64", wanted)
    rows("acquires a second, 256 connections", "acquire-256", wanted)
    rows("renewals a second, 64 connections", "renew", wanted)
    rows("renewals a second beside SETs, 32 in flight on 50 connections", "pipelined", wanted)
    rows("release to the next holder's knowledge, p50 in us", "handover", wanted)
    rows("crash of a holder, TTL 5 s, to the next, ms", "failover", wanted)
    rows("resident memory when idle, kB", "idle", wanted)
    rows("bytes per lease held", "lease", wanted)
    rows("start to serving, ms", "start", wanted)
    row(many " leases: bytes each", "many-lease", "many-lease", "redis-memory", "<= 1")
    row(many " leases: acquires a second, 256 connections", "many-acquire", "many-acquire-empty",
        "tenured", ">= 0.8")
    print ""
    print "| tenured alone | (spread) | wanted | met |"
    print "|---|---|---|---|"
    alone("resident memory when idle, kB", "idle", "tenured", "<= 10240")
    alone("acquires a second on the Unix socket, 256 connections", "acquire-256", "tenured-unix")
    alone("crash of a holder on the Unix socket, to the next, ms", "failover", "tenured-unix",
          "<= 20")
    alone(many " leases of 1,000 sessions: restart to serving, ms", "many-restart", "tenured",
          "<= 3000")
    draw()
}
