"""Settings of the documentation site; `make docs` builds it into build/docs.

Nothing is fetched, neither while the site is built nor while it is read: MathJax comes from a
package, and links to other sites are not followed.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import starlings

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "starlings"
author = "the authors of starlings"
version = release = starlings.__version__
html_title = f"starlings {version}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "plain_docstrings",
    "public_api",
]
exclude_patterns = ["_extensions", "_static"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["layout.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False

# Pages are Markdown with dollars for mathematics. A link to a page or heading that is not there is
# a warning, and `make docs` turns warnings into errors.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types in signatures, most of them of other libraries

# Pages with cells are run in every build, each in an empty folder. A cell that fails, or in which
# this library warns, or that writes to stderr, is a warning here, and hence fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True  # in the log, beside the warning that fails the build
nb_merge_streams = True
nb_output_stderr = "remove-warn"
nb_execution_timeout = 180  # seconds for one cell
logging.getLogger("traitlets").setLevel(logging.WARNING)  # says of every page that it is run
profile = HERE.parent / "build" / "ipython" / "profile_default"  # not that of whoever builds this
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = str(profile.parent)
os.environ["STARLINGS_EXAMPLES"] = str(HERE.parent / "examples")
reports = HERE.parent / "build" / "reports" / "reports"  # which pages of the gallery write
reports.mkdir(parents=True, exist_ok=True)
html_extra_path = [str(reports.parent)]
os.environ["STARLINGS_REPORTS"] = str(reports)
os.environ["PYTHONWARNINGS"] = "error::UserWarning,ignore:IProgress not found"  # that is of tqdm
os.environ["COLUMNS"] = "88"  # width of the tables that commands print

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
add_module_names = False

TITLES = {"claims": "The verdict on every claim of the paper"}
"""Headings of pages that a command writes without one."""


def _add_title(app: Any, docname: str, source: list[str]) -> None:
    if docname in TITLES and not source[0].startswith("# "):
        source[0] = f"# {TITLES[docname]}\n\n{source[0]}"


def setup(app: Any) -> None:
    """Give every page a heading."""
    app.connect("source-read", _add_title)
