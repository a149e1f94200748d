#!/bin/sh
# Checks the shape of the source below the folders. A unit is a header and the sources of one stem.
#   circle: no units include one another in a circle, anywhere in src/
#   depth: includes inside src/backend/cuda are at most 8 deep
#   files: a folder holds at most 40
#   api: functions of linnet.h lie in src/engine/api, and nowhere else
#   lines: a function has at most 60, from its first to the brace that ends it in column 0, in tests/
#     and bench/, too
# usage: units.sh SOURCE_DIR
set -eu
cd "$1"

# Known exceptions, a line each: the rule and a folder, or a file for `lines`. A circle is
# its first folder's. The test fails when one is no longer needed: the list shrinks.
known='
'

report=$(find src tests bench -type f \( -name "*.[ch]" -o -name "*.inc" -o -name "*.cu" -o -name "*.cuh" \) |
    LC_ALL=C sort | tr '\n' '\0' | xargs -0 awk -v known="$known" '
BEGIN {
    MAX_DEPTH = 8
    MAX_FILES = 40
    MAX_LINES = 60
    n_lines = split(known, line, "\n")
    for (i = 1; i <= n_lines; i++)
        if (line[i] != "")
            is_known[line[i]] = 1
}
function fail(text) {
    print text
    bad = 1
}
# A place breaks a rule, which fails unless it is a known exception.
function break_rule(rule, place, what) {
    is_used[rule " " place] = 1
    if (!((rule " " place) in is_known))
        fail(rule " " place ": " what)
}
function folder_of(path) {
    sub(/\/[^\/]*$/, "", path)
    return path
}
function unit_of(path) {
    sub(/\.[a-z]+$/, "", path)
    return path
}
FNR == 1 {
    in_src = FILENAME ~ /^src\//
    file = in_src ? substr(FILENAME, 5) : FILENAME
    first = inside = 0
}
FNR == 1 && in_src {
    unit = unit_of(file)
    is_file[file] = is_unit[unit] = 1
    n_files[folder_of(file)]++
}
in_src && /^[ \t]*#[ \t]*include[ \t]*"/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*/, "", path)
    includes[file] = includes[file] " " path
    if (unit_of(path) != unit)
        needs[unit] = needs[unit] " " unit_of(path)
}
# A function begins with a word in column 0, has parentheses, and ends with a brace in column 0.
/^[A-Za-z_]/ && !first && !/^extern "C"/ {
    first = FNR
    text = ""
}
first && !inside {
    text = text " " $0
    if (/;$/)
        first = 0
    else if (/\{$/)
        inside = 1
    next
}
inside && /^}/ {
    if ($0 == "}" && text ~ /\(/) {
        n_functions++
        if (in_src && name_of(text) ~ /^linnet_/ && file !~ /^engine\/api\//)
            fail(FILENAME ":" first ": " name_of(text) " does not lie in src/engine/api")
        if (FNR - first + 1 > MAX_LINES)
            break_rule("lines", file, name_of(text) " has " FNR - first + 1)
    }
    first = inside = 0
}
# The name of a function: the word before the last parenthesis that opens in no other.
function name_of(text, i, depth_in, at) {
    for (i = 1; i <= length(text); i++) {
        if (substr(text, i, 1) == "(" && depth_in++ == 0)
            at = i
        depth_in -= substr(text, i, 1) == ")"
    }
    text = substr(text, 1, at - 1)
    sub(/.*[ *]/, "", text)
    return text
}
# Notes all units that `from` needs, by any way, as reach[origin, unit].
function walk(origin, from, list, n, i) {
    n = split(needs[from], list, " ")
    for (i = 1; i <= n; i++)
        if (list[i] in is_unit && !((origin, list[i]) in reach)) {
            reach[origin, list[i]] = 1
            walk(origin, list[i])
        }
}
# How deep the includes of a file of backend/cuda are, itself included.
function depth_of(path, list, n, i, deepest, d) {
    if (path in depth)
        return depth[path]
    depth[path] = 1
    n = split(includes[path], list, " ")
    for (i = 1; i <= n; i++)
        if (list[i] ~ /^backend\/cuda\// && list[i] in is_file) {
            d = depth_of(list[i])
            deepest = d > deepest ? d : deepest
        }
    return depth[path] = 1 + deepest
}
END {
    for (unit in is_unit)
        walk(unit, unit)
    for (unit in is_unit)
        if ((unit, unit) in reach) {
            first_folder = folder_of(unit)
            others = ""
            for (other in is_unit)
                if ((unit, other) in reach && (other, unit) in reach) {
                    others = others " " other
                    if (folder_of(other) < first_folder)
                        first_folder = folder_of(other)
                }
            break_rule("circle", first_folder, unit " is in one of" others)
        }
    for (path in is_file)
        if (path ~ /^backend\/cuda\// && depth_of(path) > MAX_DEPTH)
            break_rule("depth", folder_of(path), path " is " depth_of(path) " deep")
    for (folder in n_files)
        if (n_files[folder] > MAX_FILES)
            break_rule("files", folder, n_files[folder])
    for (exception in is_known)
        if (!(exception in is_used))
            fail(exception ": no longer an exception: take it off the list")
    for (unit in is_unit)
        n_units++
    printf "%d units, %d functions\n", n_units, n_functions
    exit bad || n_functions == 0
}') && status=0 || status=1
echo "$report" | LC_ALL=C sort
exit $status
