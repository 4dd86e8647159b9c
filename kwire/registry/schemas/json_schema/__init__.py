"""Schemas of JSON Schema: drafts 4, 6, 7, 2019-09 and 2020-12.

`reading` makes the parts of `parts` from JSON, with the help of `keywords` and `resolving`;
`comparing` decides whether a reader accepts what a writer's schema allowed; `schema` has it all.
"""
