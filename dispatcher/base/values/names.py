"""Names of what a workspace keeps: templates, workflows, schedules."""

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
NAME_WORDS = "1 to 100 letters, digits and . _ / -, a letter or digit first"
