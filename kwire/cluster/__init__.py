"""Where the metadata of the cluster is kept, and who registers.

The way in is `store.MetadataStore`; nothing outside this room asks which store it is.
"""
