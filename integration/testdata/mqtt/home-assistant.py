"""Does with a recipe for Home Assistant's integration MQTT what that does.

The argument is a file with the YAML of the recipe, and standard input has messages as
mosquitto_sub -F '%t %p' writes them. For each entity of the recipe one line goes out, its name
and its value after the newest message on its topic: the value is what its template makes of
the message. A template that uses what the message does not have is an error.
"""

import json
import sys

import jinja2
import jinja2.sandbox
import yaml

with open(sys.argv[1], encoding="utf-8") as f:
    recipe = yaml.safe_load(f)
newest = {}
for line in sys.stdin:
    topic, _, payload = line.rstrip("\n").partition(" ")
    newest[topic] = payload
templates = jinja2.sandbox.ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
for platform, entities in recipe["mqtt"].items():
    for entity in entities:
        payload = newest.get(entity["state_topic"])
        if payload is None:
            continue
        value = templates.from_string(entity["value_template"]).render(value=payload, value_json=json.loads(payload))
        if platform == "binary_sensor" and value not in ("ON", "OFF"):
            sys.exit(f"{entity['name']} is {value!r}, which is neither ON nor OFF")
        print(entity["name"], value)
