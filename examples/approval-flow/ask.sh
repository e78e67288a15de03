#!/bin/sh
# Runs inside a container. It can raise a signal; it cannot make anything happen.
time=$(date -u -d '+8 seconds' +%Y-%m-%dT%H:%M:%SZ)
printf '{"prompt":"water the plants, then write a report","schedule":"%s"}' "$time" >request.json
sallyport-signal schedule_task --payload request.json --wait
