# Watch, parse, handle, write the response, unlink: without fsync, journal or checks.
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


class Handler(FileSystemEventHandler):
    def on_created(self, event):
        if not event.is_directory:
            handle(event.src_path)


observer = Observer()
directories = [os.path.join(base, box, "in", "new") for box in sorted(os.listdir(base))]
for directory in directories:
    observer.schedule(Handler(), directory)
observer.start()
print("ready", flush=True)
for directory in directories:
    for name in sorted(os.listdir(directory)):
        handle(os.path.join(directory, name))
sys.stdin.read()
