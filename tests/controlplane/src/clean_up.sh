# clean_up FOLDER
# Removes the folder once our standard input has ended and no supervisor has its marker in there.
while read -r _; do :; done
tries=0
while ls "$1"/*.running && [ "$tries" -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
rm -rf "$1"
