#!/bin/sh
# Installs into a temporary DESTDIR, as `make install` does, and uses what lies there: the program
# with its demo model, and both libraries through pkg-config.
# usage: install.sh CMAKE BINARY_DIR SOURCE_DIR CC
set -eu
cmake=$1 binary_dir=$2 source_dir=$3 cc=$4

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root "$cmake" --install "$binary_dir" --prefix /usr/local >/dev/null
usr=$root/usr/local
for file in bin/linnet lib/liblinnet.a lib/liblinnet.so include/linnet.h lib/pkgconfig/linnet.pc \
    share/man/man1/linnet.1 share/zsh/vendor-completions/_linnet lib/systemd/system/linnet.service \
    share/fish/vendor_completions.d/linnet.fish lib/cmake/linnet/linnet-config.cmake share/bash-completion/completions/linnet \
    share/linnet/models/demo.gguf share/doc/linnet/LICENSE; do
    [ -e "$usr/$file" ] || { echo "$file is missing"; exit 1; }
done

# Installed documents link to what is there.
cd "$usr/share/doc/linnet"
for page in $(find . -name '*.md'); do
    for link in $(grep -o '][(][^)]*' "$page" | sed 's/^..//; s/#.*//'); do
        case $link in http*) continue ;; esac
        [ -e "$(dirname "$page")/$link" ] || { echo "$page links to $link, which is missing"; exit 1; }
    done
done

# From a folder that holds nothing else, the program finds the installed demo model.
cd "$root"
text=$("$usr/bin/linnet" run -p 'Once upon a time' -n 8 --temp 0 2>stderr)
[ -n "$text" ] || { echo 'no text'; cat stderr; exit 1; }
grep -qF "$usr/share/linnet/models/demo.gguf" stderr || { cat stderr; exit 1; }

[ -z "$(find "$root" -name '*test*')" ] ||
    { echo 'tests are installed'; exit 1; }
! command -v systemd-analyze >/dev/null || {
    # what it starts is looked for where it will be
    sed "s|^ExecStart=/|ExecStart=$root/|" "$usr/lib/systemd/system/linnet.service" >linnet.service
    systemd-analyze verify --man=no ./linnet.service 2>verify || { cat verify; exit 1; }
    ! grep linnet.service verify
}

export PKG_CONFIG_PATH="$usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
version=$("$usr/bin/linnet" --version)
[ "$version" = "linnet $(pkg-config --modversion linnet)" ] ||
    { echo "linnet.pc and 'linnet --version' say different versions"; exit 1; }
for kind in '' --static; do # linnet.h needs no header of a dependency
    # shellcheck disable=SC2086  # none or one word
    flags=$(pkg-config $kind --cflags linnet)
    case $flags in *-D* | *-I*-I*) echo "linnet.pc has flags of dependencies: $flags"; exit 1 ;; esac
done
# shellcheck disable=SC2046  # several words
"$cc" -std=c17 "$source_dir/examples/hello.c" $(pkg-config --cflags --libs linnet) -o hello-shared
LD_LIBRARY_PATH="$usr/lib" ./hello-shared "$usr/share/linnet/models/demo.gguf" >shared.txt
mkdir package
cat >package/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(hello LANGUAGES C)
find_package(linnet 0.1 REQUIRED)
foreach(kind linnet static)
  add_executable(hello-\${kind} $source_dir/examples/hello.c)
  target_link_libraries(hello-\${kind} PRIVATE linnet::\${kind})
endforeach()
END
"$cmake" -S package -B package/build -DCMAKE_PREFIX_PATH="$usr" -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build package/build >/dev/null
for kind in linnet static; do
    package/build/hello-$kind "$usr/share/linnet/models/demo.gguf" | cmp - shared.txt
done
mv "$usr/lib/liblinnet.so" "$usr/lib/hidden.so"
# shellcheck disable=SC2046
"$cc" -std=c17 "$source_dir/examples/hello.c" $(pkg-config --cflags --static --libs linnet) \
    -o hello-static
./hello-static "$usr/share/linnet/models/demo.gguf" >static.txt
[ -s shared.txt ] && cmp shared.txt static.txt

# A prefix may be relative and have spaces.
unset PKG_CONFIG_SYSROOT_DIR
"$cmake" --install "$binary_dir" --prefix 'of one user' >/dev/null
grep -qxF "prefix=$root/of one user" 'of one user/lib/pkgconfig/linnet.pc'
export PKG_CONFIG_PATH="$root/of one user/lib/pkgconfig"
eval "\"$cc\" -std=c17 \"$source_dir/examples/hello.c\" $(pkg-config --cflags --libs linnet) -o hello-own"
LD_LIBRARY_PATH="of one user/lib" ./hello-own "$usr/share/linnet/models/demo.gguf" | cmp - shared.txt
echo 'installed program and libraries work'
