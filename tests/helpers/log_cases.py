"""Logs with one fault each, and how their errors and warnings are compared."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.logs import columns, content
from saddleback.log import Log, LogError


def good(**options):
    """Return the columns of a log of three episodes, numbered 10 to 12, of 4 rows each."""
    return columns([4, 4, 4], ["terminated", "truncated", "terminated"], **options)


def with_value(name, rows, value, data=None):
    """Return the good log with another value in some rows of a column."""
    data = dict(good() if data is None else data)
    number = isinstance(value, (int, float)) and data[name].dtype != object
    data[name] = data[name].astype(np.result_type(data[name].dtype, type(value)) if number else "O")
    data[name][rows] = value
    return data


def without(*names, data=None):
    """Return the good log without some columns."""
    return {k: v for k, v in (good() if data is None else data).items() if k not in names}


def errors_of(log):
    """Return the errors raised when a log is read; its summary must list the same."""
    with pytest.raises(LogError) as caught:
        content(log)
    message = str(caught.value)
    assert message == "\n".join(map(str, log.summary().errors))
    return message


def findings_of(data, gamma=None, **options):
    """Return all findings of a log, one per line."""
    log = Log(data, **options)
    if gamma is None:
        content(log)
    return "\n".join(map(str, log.summary(gamma).findings))


def error_matching(kind, *parts):
    """Expect an error whose message contains the parts in this order."""
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


def parquet(path, data, row_group=None):
    """Write a Parquet file and return its path."""
    pq.write_table(data, path, row_group_size=row_group)
    return str(path)
