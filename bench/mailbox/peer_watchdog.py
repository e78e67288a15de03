# Watch, parse, handle, write the response, unlink: without fsync, journal or checks.
#   peer_watchdog.py BASE          one watch over all mailboxes, which also sees those that come later
#   peer_watchdog.py BASE each     a watch, an inotify queue and two threads for each; new ones would be missed
import json
import os
import sys

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

base = sys.argv[1]


def handle(path):
    try:
        with open(path) as file:
            message = json.load(file)
        box = os.path.dirname(os.path.dirname(os.path.dirname(path)))
        response = {"id": message["request_id"], "type": "response", "result": {"did": message["payload"]}}
        with open(os.path.join(box, "out", message["request_id"] + ".json"), "w") as file:
            json.dump(response, file)
        os.unlink(path)
    except FileNotFoundError:
        pass


def is_new(path):
    return os.path.basename(os.path.dirname(path)) == "new"


class Handler(FileSystemEventHandler):
    def on_created(self, event):
        if not event.is_directory and is_new(event.src_path):
            handle(event.src_path)

    def on_moved(self, event):
        if not event.is_directory and is_new(event.dest_path):
            handle(event.dest_path)


observer = Observer()
directories = [os.path.join(base, box, "in", "new") for box in sorted(os.listdir(base))]
if sys.argv[2:] == ["each"]:
    for directory in directories:
        observer.schedule(Handler(), directory)
else:
    observer.schedule(Handler(), base, recursive=True)
observer.start()
print("ready", flush=True)
for directory in directories:
    for name in sorted(os.listdir(directory)):
        handle(os.path.join(directory, name))
sys.stdin.read()
