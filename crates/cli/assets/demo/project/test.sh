#!/bin/sh
# Compares what total.sh prints with what it should print. Ends with 0 when all of it is right.
failed=0

check() {
    got=$(printf "$2" | sh ./total.sh)
    if [ "$got" = "$3" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: wanted $3, got $got"
        failed=1
    fi
}

check "one line" 'apple,3,2\n' 6
check "two lines" 'apple,3,2\npear,5,4\n' 26
check "an empty list" '' 0
check "no line end after the last line" 'apple,3,2\npear,5,4' 26
exit $failed
