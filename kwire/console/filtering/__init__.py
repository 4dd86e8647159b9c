"""The language of filter expressions, such as `value.total > 100 and key starts "user-"`.

`tokens` cuts an expression into words, `parsing` makes a function of it, `facts` is what it may
ask of a record.  It has no loops and no names but those of a record, and each operation takes time
in proportion to the record, so that an expression in a link can do no harm.
"""
