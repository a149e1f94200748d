# bash completion for linnet

_linnet() {
    local word=$2 before=$3 command=${COMP_WORDS[1]} i
    local general='--help --usage --version'
    local engine='--precision --backend --gpu-layers --cpu-experts --experts-from-disk --cpu --kv-type --ctx --max-seqs --max-batch-tokens
        --threads --pin --quantize-on-load --batch-invariant --kv-tokens --prefix-cache --swap-bytes --preemption
        --policy --order --max-long-prefills --long-prefill-tokens --draft --draft-tokens
        --draft-model --max-adapters --max-adapter-rank --adapt-experts --tp --pp --ep --collectives'
    local sampling='--temp --top-k --top-p --min-p --repeat-penalty --repeat-last-n
        --frequency-penalty --presence-penalty --seed'
    local model='--model --hf'
    local grammar='--json --json-schema --regex --choice --grammar --grammar-type --structural-tag
        --json-whitespace --json-order --json-strict'
    COMPREPLY=()

    # bash splits --option=value at the =
    if [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word == = ]]; then
        word=
    fi
    case $before in
    --precision) mapfile -t COMPREPLY < <(compgen -W 'exact fast' -- "$word") ;;
    --backend) mapfile -t COMPREPLY < <(compgen -W 'auto cpu cuda' -- "$word") ;;
    --prefix-cache | --batch-invariant) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$word") ;;
    --cpu-experts) mapfile -t COMPREPLY < <(compgen -W 'all auto' -- "$word") ;;
    --preemption) mapfile -t COMPREPLY < <(compgen -W 'auto swap recompute' -- "$word") ;;
    --pooling) mapfile -t COMPREPLY < <(compgen -W 'cls mean last' -- "$word") ;;
    --collectives) mapfile -t COMPREPLY < <(compgen -W 'auto nccl' -- "$word") ;;
    --policy) mapfile -t COMPREPLY < <(compgen -W 'chunked prefill-first' -- "$word") ;;
    --json-whitespace) mapfile -t COMPREPLY < <(compgen -W 'free compact' -- "$word") ;;
    --json-order) mapfile -t COMPREPLY < <(compgen -W 'free written' -- "$word") ;;
    --grammar-type) mapfile -t COMPREPLY < <(compgen -W 'gbnf lark' -- "$word") ;;
    --order) mapfile -t COMPREPLY < <(compgen -W 'fcfs priority' -- "$word") ;;
    --cpu) mapfile -t COMPREPLY < <(compgen -W 'auto scalar avx2 avx512 avx512-vnni avx512-bf16 amx neon
        neon-dotprod neon-i8mm' -- "$word") ;;
    --kv-type) mapfile -t COMPREPLY < <(compgen -W 'f32 f16 bf16 q8_0 fp8' -- "$word") ;;
    -m | --model | -f | --file | --lora | --chat-template | --json-schema | --grammar | --structural-tag | --check-lines | --api-key-file | --tls-cert | --tls-key | --compare | --out | --context | --write) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    -p | --prompt | -n | --max-tokens | --ids | --encoder-ids | --system | --stop | --beams | --text | --pair | --dimensions | --now | --regex | --choice) ;;
    --type) mapfile -t COMPREPLY < <(compgen -W 'F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0
        Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4 MXFP4_MOE Q3_K_L Q3_K_M Q3_K_S Q2_K Q2_K_S' -- "$word") ;;
    --hf | --parallel | --part-bytes) ;;
    -c | --ctx | -t | --threads | --max-seqs | --max-batch-tokens | --keep | --stride | --prefill | --decode | --context | --seqs | --runs | --shape) ;;
    --host | --port | --api-key | --kv-events* | --served-name | --cors | --allowed-host | --max-* | --*-timeout) ;;
    --requests | --concurrency | --rate | --shared) ;;
    --gpu-layers | --kv-tokens | --swap-bytes | --max-long-prefills | --long-prefill-tokens) ;;
    --temp | --top-k | --top-p | --min-p | --seed) ;;
    --repeat-penalty | --repeat-last-n | --frequency-penalty | --presence-penalty) ;;
    *)
        if ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W "run chat serve pull list rm show inspect plan tokenize detokenize grammar
                template logits embed bench convert quantize merge eval doctor help $general" -- "$word")
        elif [[ $command == help ]]; then
            mapfile -t COMPREPLY < <(compgen -W "run chat serve pull list rm show inspect plan tokenize detokenize grammar
                template logits embed bench convert quantize merge eval doctor engine" -- "$word")
        elif [[ $word == -* ]]; then
            case $command in
            run) i="--prompt --file --ids --encoder-ids --chat --system --chat-template --max-tokens --stop --beams --ignore-eos --lora
                --keep-special --print-ids --print-memory --quiet $sampling $grammar $engine $model" ;;
            chat) i="--lora --system --chat-template --max-tokens --quiet $sampling $engine $model" ;;
            serve) i="--lora --host --port --api-key --api-key-file --served-name --chat-template --chat-template-kwargs --cors --tls-cert --tls-key
                --allowed-host --strict-fields --no-web-page --metrics-prefix --kv-events --kv-events-topic --kv-events-replay --kv-events-buffer --kv-events-hwm --response-store --max-responses --max-response-bytes
                --log-json --no-log --sandbox --max-waiting --max-connections --max-head-bytes --max-headers
                --max-body-bytes --max-bodies-bytes --max-unread-bytes --head-timeout --body-timeout --idle-timeout
                --unread-timeout --drain-timeout --hang-timeout --models --memory --gpu-memory --keep-alive $engine $model" ;;
            pull) i='--offline --parallel --part-bytes --quiet' ;;
            list | doctor) i='--json' ;;
            rm) i= ;;
            inspect | show) i="--tensors --json $model" ;;
            plan) i="--beams --disk-rate --gpu --json --serve $engine $model" ;;
            tokenize) i="--text --file --no-special $model" ;;
            detokenize) i="--ids --keep-special $model" ;;
            grammar) i="--check-lines $grammar" ;;
            template) i="--context --now $model" ;;
            bench) i="--shape --type --write --prefill --decode --context --seqs --runs --profile --explain --json --plot --serve-trace
                --requests --concurrency --rate --shared $sampling $engine $model" ;;
            convert) i='--type --keep --threads --no-tokenizer' ;;
            eval) i="--file --compare --stride --chunks --json --plot $engine $model" ;;
            quantize) i='--type --keep --threads' ;;
            merge) i='--lora --out --requantize --threads' ;;
            embed) i="--text --pair --file --ids --pooling --prompt-name --no-normalize --dimensions --classes $engine $model" ;;
            logits) i="--lora --ids --encoder-ids --out $engine $model" ;;
            esac
            mapfile -t COMPREPLY < <(compgen -W "$i $general" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    esac
}
complete -o filenames -F _linnet linnet
