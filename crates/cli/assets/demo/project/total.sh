#!/bin/sh
# Reads a shopping list from standard input, one "item,price,count" a line,
# and prints what it costs altogether.
total=0
while IFS=, read -r item price count; do
    total=$((total + price * count))
done
echo "$total"
