"""Which split for me: a few questions, an answer with its reasons, and where to read on."""

from typing import Any, NamedTuple

from helpers.explore.explorer import Explorer
from helpers.frameworks import NAMES, check_known
from helpers.pictures import COLOURS, Picture, new_figure

WANTS = "one network sooner", "many trainings", "a network that hardly fits"
FITS = "yes", "no", "only with a tiny batch"
STEPS = "mostly computing", "very short"
HEADINGS = {
    3: "§3 Split the batch: the tool",
    4: "§4 Split the batch: by hand",
    6: "§6 Split the model",
    7: "§7 Split the jobs",
    8: "§8 Is it faster?",
}

# The tree: questions from top to bottom, the answers that lead on to the next question, what the
# sections recommend from top to bottom, and the answers that lead there.
QUESTIONS = (
    "Does it fit on one card?",
    "What do you want?",
    "What is a step?",
    "Are the cards alike?",
)
ON = "yes, or with a tiny batch", "one network", "mostly computing"
SPLITS = {
    6: "split the model",
    7: "split the jobs",
    8: "do not split yet",
    3: "split the batch, with the tool",
    4: "split the batch, by hand",
}
TURNS = {
    (0, 6): "no",
    (1, 6): "it hardly fits: a tiny\nbatch is not enough",
    (1, 7): "many trainings",
    (2, 8): "very short",
    (3, 3): "yes",
    (3, 4): "no",
}
LINE = 80  # the height of a line of the tree, in pixels


class Recommendation(NamedTuple):
    """What to do, why, and the number of the section that shows how."""

    split: str
    reasons: list[str]
    section: int


def recommend(want: str, fits: str, alike: bool, steps: str) -> Recommendation:
    """Which split suits the answers: what you want (one of ``WANTS``), whether the network fits on
    one card with a useful batch (``FITS``), whether the two cards are alike, and what takes the
    time of a step (``STEPS``).

    The rules are those of the chapters: *Which split for whom?* in §6, *For whom?* in §7 and *What
    to do when two are slower* in §8. Raises ValueError for an unknown answer.
    """
    for answer, choices in ((want, WANTS), (fits, FITS), (steps, STEPS)):
        if answer not in choices:
            raise ValueError(f"Unknown answer {answer!r}: choose one of {', '.join(choices)}.")
    many, large = want == WANTS[1], want == WANTS[2]
    tiny, short = fits == FITS[2], steps == STEPS[1]
    if fits == "no" or (tiny and large):
        section = 6
        reasons = {
            "The network is too large for one card, so each card holds a part of it.": not tiny,
            "Each card holds a part of the weights, which leaves room for more rows.": tiny,
            "Each training needs both cards, so they run one after the other.": many,
            "The larger card takes the larger part.": not alike,
            "Take few micro-batches, as the start of each costs time.": short,
        }
    elif many:
        section = 7
        reasons = {
            "The trainings need nothing from each other, so nothing is sent.": True,
            "In each, add up the gradients of several tiny batches before a step.": tiny,
            "The card that is free first takes the next job.": not alike,
        }
    elif short:
        section = 8
        reasons = {
            "The network fits on one card, so it need not be cut.": large,
            "In a short step the message and the fixed costs outweigh the computing.": True,
            "Put more rows into a step, measure, and split the batch when it pays.": not tiny,
            "Add up the gradients of several tiny batches before each message, and measure.": tiny,
        }
    else:
        section = 3 if alike else 4
        reasons = {
            "The network fits on one card, so it need not be cut.": True,
            "Each card takes a share of the rows.": not tiny,
            "Each card takes the rows that it can hold: the global batch is larger.": tiny,
            "The cards are alike: equal shares, as the tool makes them.": alike,
            "Equal shares make the faster card wait: by hand you can give it more.": not alike,
        }
    return Recommendation(SPLITS[section], [why for why, so in reasons.items() if so], section)


def place(section: int, framework: str) -> tuple[str, str]:
    """The chapter in which a section stands, and the link to it from another notebook. Raises
    ValueError for an unknown framework, KeyError for a section that is not in ``HEADINGS``."""
    check_known(framework)
    number, name = 2 + list(NAMES).index(framework), NAMES[framework]
    anchor = HEADINGS[section].replace(" ", "-")
    if section < 7:
        return f"{name}, chapter {number}", f"{number:02}_{framework}.ipynb#{anchor}"
    return f"{name} in practice", f"{number:02}_{framework}_in_practice.ipynb#{anchor}"


def draw(want: str, fits: str, alike: bool, steps: str, framework: str) -> Picture:
    """Draw the questions as a tree, with the way that these answers take through it."""
    split, reasons, section = recommend(want, fits, alike, steps)
    last = max(question for question, leads in TURNS if leads == section)  # the last one asked
    if section == 6 and fits == "no":
        last = 0
    figure = new_figure(8, 4)
    figure.set_layout_engine("none")  # all stands at fixed places, in pixels from the top left
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 800), ylim=(5 * LINE, 0))
    axes.axis("off")
    middle = [LINE * (line + 0.5) for line in range(5)]
    for line, answer in enumerate(ON):
        ends = (50, middle[line] + 18), (50, middle[line + 1] - 18)
        _arrow(axes, *ends, line < last)
        axes.text(62, LINE * (line + 1), answer, **_words(line < last, "left"))
    for (question, leads), answer in TURNS.items():
        ends = (220, middle[question]), (500, middle[list(SPLITS).index(leads)])
        taken = (question, leads) == (last, section)
        _arrow(axes, *ends, taken)
        ground = {"color": "white", "pad": 1}
        axes.text(360, (ends[0][1] + ends[1][1]) / 2, answer, **_words(taken), bbox=ground)
    for line, question in enumerate(QUESTIONS):
        _box(axes, (20, 200), middle[line], question, "white", line <= last)
    for line, (number, name) in enumerate(SPLITS.items()):
        taken = number == section
        fill = COLOURS[0] if taken else "white"
        _box(axes, (500, 280), middle[line], f"{name}, §{number}", fill, taken)
    where = f"{place(section, framework)[0]}, §{section}"
    return Picture(figure, f"{split.capitalize()}: {where}. {' '.join(reasons)}")


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], taken: bool) -> None:
    look = {"color": COLOURS[0], "linewidth": 3} if taken else {"color": "#777777", "linewidth": 1}
    look |= {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look)


def _box(axes: Any, x: tuple[float, float], y: float, words: str, fill: str, taken: bool) -> None:
    look = {"edgecolor": COLOURS[0], "linewidth": 3} if taken else {"edgecolor": "#777777"}
    axes.broken_barh([x], (y - 18, 36), facecolor=fill, **look)
    ink = {} if fill == "white" else {"color": "white"}
    axes.text(x[0] + x[1] / 2, y, words, **_words(taken) | ink)


def _words(taken: bool, align: str = "center") -> dict[str, Any]:
    ink = {"color": "black", "fontweight": "bold"} if taken else {"color": "#555555"}
    return {"ha": align, "va": "center", "fontsize": 9} | ink


class _WithLink(Explorer):
    """The link to the section that is recommended stands below the text."""

    def __init__(self, *arguments: Any, **controls: Any) -> None:
        from ipywidgets import Box, Output

        self.link = Output()
        super().__init__(*arguments, **controls)
        self._box = Box([self._box, self.link], layout={"flex_flow": "column"})

    def _show(self, _: Any = None) -> None:
        super()._show()
        answers = {name: control.value for name, control in self.controls.items()}
        framework = answers.pop("framework")
        section = recommend(**answers).section
        chapter, target = place(section, framework)
        # Markdown, as JupyterLab then opens the chapter beside this notebook. A link in HTML would
        # open a second JupyterLab.
        data = {"text/markdown": f"[{chapter}: {HEADINGS[section]}]({target})"}
        self.link.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


def which_split() -> Explorer:
    """Explore which split suits what you want and have."""
    from ipywidgets import Checkbox, ToggleButtons

    def choice(description: str, options: Any) -> ToggleButtons:
        # No Dropdown: JupyterLab takes the arrow keys and letters pressed in one for its own.
        width = {"button_width": "auto"}
        return ToggleButtons(options=options, description=description, style=width)

    return _WithLink(
        draw,
        want=choice("what do you want?", WANTS),
        fits=choice("fits, with a useful batch?", FITS),
        alike=Checkbox(True, description="the two cards are alike", indent=False),
        steps=choice("a step is", STEPS),
        framework=choice("framework", [(name, key) for key, name in NAMES.items()]),
    )
