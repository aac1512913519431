#!/bin/sh
# What a program that is not Python sees: NUL-separated environment, then the rest as lines.
name="$DIFF_OUT/$TORCHELASTIC_RESTART_COUNT-$RANK"
{
  env -0
  printf '\001'
  printf 'arg=%s\n' "$@"
  echo "zero=$0"
  pwd; umask; ulimit -a
  for fd in 0 1 2; do [ -t $fd ] && echo "tty $fd"; done
  ls -1 /proc/self/fd | wc -l
  grep -E '^(Sig[PBIC]|Threads|NoNew|Cap)' /proc/self/status
  cat /proc/self/comm
  ps -o sid= -p $$ | grep -qw $$ && echo leader
} >"$name.txt"
echo "<$RANK:$TORCHELASTIC_RESTART_COUNT>out shell"
echo "<$RANK:$TORCHELASTIC_RESTART_COUNT>err shell" >&2
mv "$name.txt" "$name.done"
case "$DIFF_DO" in *again*)
  if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
    while [ ! -e "$DIFF_OUT/go" ]; do sleep 0.05; done
    [ "$RANK" = 0 ] && exit 7
    sleep 60
  fi ;;
esac
