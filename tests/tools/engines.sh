#!/bin/sh
# engines.sh - each engine is optional: without all of their libraries the command builds, leads in
# what is left, and names the package that a missing store needs.
. "$(dirname "$0")/../harness/lib.sh"

compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENURE_BUILD/CMakeCache.txt")
unset TENURE_STORE

t_case "without any engine it builds"
t_run cmake -S "$TENURE_ROOT" -B "$t_dir/bare" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_BUILD_TYPE=Debug -DTENURE_TESTS=OFF -DTENURE_ETCD=OFF -DTENURE_POSTGRES=OFF \
    -DTENURE_ZOOKEEPER=OFF -DTENURE_TLS=OFF -DTENURE_WEB=OFF
t_check "configures: $(tail -n 3 "$t_err")" [ "$t_status" -eq 0 ]
t_check "says what is left out" grep -q "Left out: etcd; it needs libnghttp2-dev" "$t_out"
t_run cmake --build "$t_dir/bare" -j2 --target tenure
t_check "builds: $(grep -m 3 error "$t_err" "$t_out")" [ "$t_status" -eq 0 ]
[ -x "$t_dir/bare/tenure" ] || t_done
tenure=$t_dir/bare/tenure
for library in libpq nghttp2 protobuf-c zookeeper libssl libcurl; do
    t_refute "no $library" sh -c "ldd '$tenure' | grep -q '$library'"
done

t_case "it says what it has, and what it has not"
t_run "$tenure" --version
t_check "has: $(cat "$t_out")" grep -q '^stores: sqlite, memory' "$t_out"
t_refute "has not" grep -Eq '^stores: .*(etcd|postgres|zookeeper)' "$t_out"
left='^left out.* etcd \(libnghttp2-dev, .*zookeeper \(libzookeeper-st-dev\)'
t_check "and says so" grep -Eq "$left.*postgres \(libpq-dev\)" "$t_out"
for line in "etcd libnghttp2-dev" "etcds protobuf-c-compiler" "postgres libpq-dev" \
    "postgresql libpq-dev" "zookeeper libzookeeper-st-dev" "zookeepers libzookeeper-st-dev" \
    "consul libcurl4-openssl-dev" "consuls libcurl4-openssl-dev" "s3 libcurl4-openssl-dev" \
    "dynamodb libcurl4-openssl-dev" "kubernetes libcurl4-openssl-dev"; do
    scheme=${line% *} package=${line#* }
    for words in "status x" "run x -- true" "acquire x" doctor "doctor --conformance"; do
        # shellcheck disable=SC2086 # Words are meant to be split.
        t_run "$tenure" ${words%% *} --store "$scheme://127.0.0.1:1/x" ${words#"${words%% *}"}
        t_check "$words in $scheme: 69, not $t_status" [ "$t_status" -eq 69 ]
        t_check "$words in $scheme: one line" [ "$(wc -l <"$t_err")" -eq 1 ]
        t_check "$words in $scheme names $package: $(cat "$t_err")" \
            grep -q "$scheme: is not in this build of tenure; install .*$package" "$t_err"
    done
done

t_case "and it leads"
t_run "$tenure" run --store "sqlite:$t_dir/t.db" --ttl 2s job -- true
t_ends 0
t_run "$tenure" doctor --for 50ms "sqlite:$t_dir/t.db"
t_ends 0
t_done
