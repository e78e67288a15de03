#!/bin/sh
# What runs a prompt: it comes on stdin, and what it says goes to stdout as JSON lines. Any program will do.
prompt=$(cat)
echo '{"type":"progress","text":"reading the prompt"}'
printf 'asked to: %s\n' "$prompt" >report
echo '{"type":"message","text":"the report is written"}'
