"""Draws what a terminal showed as an SVG.

    python3 -m venv VENV && VENV/bin/pip install rich pyte
    script -qec "stty cols 132; bin/captctl up --demo" recording
    VENV/bin/python docs/images/picture.py recording docs/images/quickstart.svg

The recording goes through a terminal emulator, so that the picture has the final
state of lines that were overwritten. The command replaces the header of script, and
the part after "Try next" is omitted. The picture loads no external fonts.
"""

import io
import re
import sys

import pyte
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 132


def shown(recording: str) -> list[Text]:
    """The lines of the screen, with their colours."""
    screen = pyte.Screen(COLUMNS, 400)
    pyte.Stream(screen).feed(re.sub(r"\AScript started on .*\n", "", recording))
    lines = []
    for y in range(screen.cursor.y + 1):
        line = Text()
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            style = "" if cell.fg == "default" else cell.fg
            if cell.bold:
                style += " bold"
            line.append(cell.data, style=style.strip())
        line.rstrip()
        lines.append(line)
    return lines


def main(recording: str, picture: str) -> None:
    with open(recording, encoding="utf-8", newline="") as file:
        lines = shown(file.read())
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text("$ bin/captctl up --demo", style="bold"))
    for line in lines:
        if line.plain.startswith("Try next"):
            break
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    drawn = console.export_svg(title="captctl", theme=MONOKAI)
    with open(picture, "w", encoding="utf-8") as file:
        file.write(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


main(*sys.argv[1:])
