"""What truly is in a capture, worked out from tshark's fields and plain Python, by nothing of this product.

`packets` runs tshark once over a capture; `joining` says which two directions are one connection; `infiniband` and
`iwarp` count what each end sent and put the messages together; `table` prints it. All but `packets` are pure functions.
"""
