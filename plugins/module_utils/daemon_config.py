"""dockerd's configuration file: read with a place for every error, merged deeply, compared with what runs.

Pure and standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

# dockerd takes these up on SIGHUP, without a restart:
# https://docs.docker.com/reference/cli/dockerd/#configuration-reload-behavior
# `features` is reloaded too, but the directories of CDI are only opened at the start.
RELOADABLE = frozenset(
    {
        "allow-nondistributable-artifacts",
        "authorization-plugins",
        "debug",
        "default-runtime",
        "insecure-registries",
        "labels",
        "live-restore",
        "max-concurrent-downloads",
        "max-concurrent-uploads",
        "max-download-attempts",
        "registry-mirrors",
        "runtimes",
        "shutdown-timeout",
    }
)

# Flags whose key in the file has another name: lists are plural there.
_KEY_OF_FLAG = {
    "H": "hosts",
    "host": "hosts",
    "D": "debug",
    "G": "group",
    "g": "data-root",
    "graph": "data-root",
    "l": "log-level",
    "s": "storage-driver",
    "add-runtime": "runtimes",
    "authorization-plugin": "authorization-plugins",
    "cdi-spec-dir": "cdi-spec-dirs",
    "default-ulimit": "default-ulimits",
    "dns-opt": "dns-opts",
    "exec-opt": "exec-opts",
    "insecure-registry": "insecure-registries",
    "label": "labels",
    "log-opt": "log-opts",
    "registry-mirror": "registry-mirrors",
    "storage-opt": "storage-opts",
}
# dockerd merges these two ways of saying; every other key that is in both places ends it at the start.
_MAY_BE_BOTH = frozenset({"runtimes"})


class ConfigError(Exception):
    """The file cannot be read as dockerd would; the message names file, line and column."""


def parse(text: str, path: str) -> Json:
    """The file's object; an empty file is an empty object.

    Raises ConfigError for anything that dockerd would refuse, and for a key that is there twice: dockerd takes the
    last one without a word, and a merge would lose the other.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1].strip() if error.lineno <= len(text.splitlines()) else ""
        raise ConfigError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}; the line is '{line}'"
        ) from error
    except _TwiceError as error:
        raise ConfigError(f"{path}: key '{error}' is there twice") from error
    if not isinstance(value, dict):
        raise ConfigError(f'{path}, line 1, column 1: expected an object, as in {{"live-restore": true}}')
    return value


class _TwiceError(Exception):
    """A key that an object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> Json:
    found: Json = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(key)
        found[key] = value
    return found


def merge(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """Both, deeply. What `wanted` says counts; every other key stays. Lists keep theirs, and ours come after."""
    result = dict(present)
    for key, value in wanted.items():
        old = present.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merge(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            result[key] = old + [item for item in value if item not in old]
        else:
            result[key] = value
    return result


def render(config: Mapping[str, Any]) -> str:
    """The file's text; keys keep their order, so that a diff shows what is new."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def action(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What makes a running engine take the change up: `none`, `reload` or `restart`."""
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if not changed:
        return "none"
    return "reload" if changed <= RELOADABLE else "restart"


def flags(argv: Sequence[str]) -> list[str]:
    """Keys of the file that the engine's own command line sets, in its order."""
    names = [word.lstrip("-").partition("=")[0] for word in argv[1:] if word.startswith("-") and word.strip("-")]
    return [_KEY_OF_FLAG.get(name, name) for name in names]


def conflicts(argv: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Keys that are on the command line and in the file: dockerd does not start with them."""
    return sorted(set(flags(argv)) & config.keys() - _MAY_BE_BOTH)


def config_file(argv: Sequence[str]) -> str | None:
    """The file that the engine reads when its command line names one."""
    for number, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name == "--config-file":
            return value if equals else next(iter(argv[number + 1 :]), None)
    return None
