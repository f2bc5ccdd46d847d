# SPDX-License-Identifier: BSD-2-Clause
#
# bash completion for zcachectl. Installed as bash-completion/completions/zcachectl, where it is
# loaded when first needed; needs nothing of bash-completion itself. The commands and options are
# those of `zcachectl help`; a test compares.

_zcachectl_pools() {
	local socket=()
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == --socket ]] && socket=(--socket "${COMP_WORDS[i + 1]}")
	done
	"${COMP_WORDS[0]}" "${socket[@]}" --timeout 1 pool list 2>/dev/null | sed '1d; s/ .*//'
}

_zcachectl_files() {
	_zcachectl_reply -f
	compopt -o filenames 2>/dev/null # fails where nothing is being completed, as in a test
}

_zcachectl_reply() {
	local word
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen "$@" -- "$current")
}

# Sets `command` to the command in front of the cursor ("" when there is none yet) and `operands`
# to how many words follow it there.
_zcachectl_find_command() {
	local i word
	command=
	operands=0
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		--socket | --timeout | --pool | --kind | --page-size | --limit | --codec)
			[[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))
			((++i))
			;;
		--*) ;;
		:) # of a KEY: bash makes words of its parts
			((++i))
			;;
		*)
			if [[ -z $command ]]; then
				command=$word
			elif [[ $command == pool ]]; then
				command="pool $word"
			else
				((++operands))
			fi
			;;
		esac
	done
}

_zcachectl_options() {
	local options="--help --json --socket --timeout --version"
	case $command in
	stats | get | del | exists | del-object) options+=" --pool" ;;
	classes) options+=" --pool --all" ;;
	compact) options+=" --pool --estimate" ;;
	put) options+=" --pool --keep-old" ;;
	flush) options+=" --pool --yes" ;;
	"pool create") options+=" --kind --page-size --limit --codec" ;;
	"pool destroy") options+=" --yes" ;;
	esac
	_zcachectl_reply -W "$options"
}

_zcachectl_operand() {
	local commands="ping stats classes compact put get del exists del-object flush pool help"
	case $command in
	"") _zcachectl_reply -W "$commands" ;;
	pool) _zcachectl_reply -W "list create destroy" ;;
	help)
		if ((operands == 0)); then
			_zcachectl_reply -W "$commands"
		else
			_zcachectl_reply -W "list create destroy"
		fi
		;;
	stats | classes | compact | flush | "pool destroy")
		((operands > 0)) || _zcachectl_reply -W "$(_zcachectl_pools)"
		;;
	put | get)
		((operands != 1)) || _zcachectl_files
		;;
	esac
}

_zcachectl() {
	local current=${COMP_WORDS[COMP_CWORD]}
	local previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command operands
	if [[ $current == = ]]; then
		current=
	elif [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	COMPREPLY=()
	_zcachectl_find_command
	case $previous in
	--socket) _zcachectl_files ;;
	--pool) _zcachectl_reply -W "$(_zcachectl_pools)" ;;
	--kind) _zcachectl_reply -W "cache store" ;;
	--page-size) _zcachectl_reply -W "4K 8K 16K 32K 64K" ;;
	--codec) _zcachectl_reply -W "lz4 zstd" ;;
	--timeout | --limit) ;;
	*)
		if [[ $current == -* ]]; then
			_zcachectl_options
		else
			_zcachectl_operand
		fi
		;;
	esac
}

complete -o nosort -F _zcachectl zcachectl
