"""A report of runs: one HTML page, its words and its pictures."""

from ccl_plugins.report.page import write_report as write_report
