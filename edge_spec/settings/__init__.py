"""Settings by name, and where each one's value came from.

A flag beats the environment (`EDGE_SPEC_TEMP`), which beats the project's file
(`./edge-spec.toml`), which beats the user's file, which beats the default. In a file the keys
are the long option names without their dashes in front. What concerns the chat's screen alone
stands in the table `[chat]`, and the table `[keys]` gives the chat's actions other keys::

    temp = 0.2
    ctx-size = 8192
    stop = ["\\n\\n", "###"]

    [chat]
    theme = "nord"       # colours, by a name that the chat lists
    glyphs = true        # marks tokens with signs beside the colours
    rejected = false     # hides rejected and discarded tokens
    rendered = true      # shows answers as rendered Markdown
    inspect = 5          # likeliest tokens kept for each position; 0: only while inspecting

    [keys]
    stop = "ctrl+x"      # one key instead of the action's own
    models = ["f5", "ctrl+o"]
    copy = []            # no key at all

Unknown keys, wrong types and values out of range raise SettingError with the place they are in.
Only the names of actions are left to the chat, which alone knows them. Variables have no tables
in their names: EDGE_SPEC_GLYPHS=on. `writing.save_settings` writes a file by the same rules.
"""

from edge_spec.settings.reading import KEYS
from edge_spec.settings.resolving import resolve, user_file
from edge_spec.settings.table import CHAT, SETTINGS, Setting
from edge_spec.settings.values import PROJECT_FILE, Settings, Value

__all__ = [
    "CHAT",
    "KEYS",
    "PROJECT_FILE",
    "SETTINGS",
    "Setting",
    "Settings",
    "Value",
    "resolve",
    "user_file",
]
