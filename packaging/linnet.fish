# fish completion for linnet. Commands, options and their values are what --help says.

function __linnet_commands
    linnet --help 2>/dev/null | string replace -rf '^  ([a-z]+)  +([A-Z].*)' '$1\t$2'
end

# Lines of a command's help, with the options of the engine where it has them. A long option's text begins on the
# next line, which is joined.
function __linnet_help
    begin
        set -l text (linnet $argv[1] --help 2>/dev/null)
        printf '%s\n' $text
        string match -q '*--backend=*' -- $text
        and linnet help engine 2>/dev/null
    end | sed -E '/^ +(-., )?--[^ ]+$/{N;s/\n +/   /}'
end

function __linnet_options
    set -l command (commandline -opc)[2]
    set -l word (commandline -ct)
    if not string match -q -- '*=*' $word
        __linnet_help $command |
            string replace -rf '^ +(?:-., )?(--[a-z-]+)(?:\[?(=)\S+)?(?: +(.*))?$' '$1$2\t$3'
        return
    end
    set -l name (string split -m 1 = -- $word)[1]
    set -l value (__linnet_help $command | string replace -rf "^ +(?:-., )?$name=(\S+).*" '$1')[1]
    if string match -q '*|*' -- $value
        printf "$name=%s\n" (string split '|' -- $value)
    else if string match -qr 'FILE|MODEL|PATH|DIR' -- $value
        __fish_complete_path (string replace -- "$name=" '' $word) | string replace -r -- '^' "$name="
    end
end

function __linnet_models
    linnet list 2>/dev/null | string replace -rf '^(\S+/\S+)\s.*' '$1'
end

complete -c linnet -f -n __fish_use_subcommand -a '(__linnet_commands)'
complete -c linnet -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -f -a '(__linnet_options)'
complete -c linnet -n '__fish_seen_subcommand_from help' -f -a '(__linnet_commands) engine'
complete -c linnet -n 'not __fish_use_subcommand; and not __fish_seen_subcommand_from help' -a '(__linnet_models)'
