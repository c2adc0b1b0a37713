"""UniDEC and DePSL (paper 5, chapter 2): a dual encoder and a classifier over one text encoder, trained together on
pools of labels. Only settings can be imported without torch."""
